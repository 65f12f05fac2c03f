"""The pages of the documentation as programs: their blocks of code, one after the other."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Code of a page: its language, empty for what is typed into a shell or shown, and its text."""

    page: str
    number: int
    language: str
    text: str

    def with_own(self, own):
        """Return the block with our own texts in the place of those that are shown, such as an address."""
        text = self.text
        for shown, ours in own.items():
            text = text.replace(shown, ours)
        return replace(self, text=text)

    def run(self, names):
        """Run Python, as a reader would who pastes it; ``names`` are those that it finds and leaves."""
        exec(compile(self.text, f"{self.page}, block {self.number}", "exec"), names)  # noqa: S102


def blocks(page):
    """Return the blocks of a page, in order."""
    found = _BLOCK.findall((ROOT / page).read_text())
    return [Block(page, number, language, text) for number, (language, text) in enumerate(found, 1)]


def cells(shown):
    """Return the numbers of the tables that Spark has shown, row by row."""
    rows = [line.strip("|").split("|") for line in shown.splitlines() if line.startswith("|")]
    return [[int(cell) for cell in row if cell.strip().isdecimal()] for row in rows if row[0].strip().isdecimal()]
