"""The pages of the documentation as programs, and pages in a real browser without a window."""

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

import pytest

from tests.support.command import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
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


_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_QUIET = ("no-first-run", "disable-background-networking", "disable-component-update", "disable-sync", "disable-quic")


def browse(folder, address, *options):
    """Open a page in Chromium, and return its document after its scripts have run for some seconds of their time.

    folder: an empty profile is made there.
    options: more options of Chromium, such as ``--print-to-pdf=FILE``.

    Skips the test if there is no Chromium, which pip cannot install.
    """
    chromium = next(filter(None, map(shutil.which, _NAMES)), None)
    if chromium is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is on the PATH, and pip installs no browser")
    switches = [f"--{name}" for name in ("headless=new", "no-sandbox", "disable-gpu", *_QUIET)]
    command = [chromium, *switches, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000"]
    done = subprocess.run(
        [*command, "--dump-dom", *options, address], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return done.stdout


def measured(folder, pages, widths, *options):
    """Show pages in frames of some widths; return for each how many pixels it is wide, and its background's colour."""
    frames = [(page, width) for page in pages for width in widths]
    file = folder / "frames.html"
    file.write_text(
        "".join(f'<iframe style="width: {width}px" srcdoc="{escape(page)}"></iframe>' for page, width in frames)
        + """<pre></pre><script>onload = () => { document.querySelector("pre").textContent =
          [...document.querySelectorAll("iframe")].map(({contentDocument: d}) =>
            d.documentElement.scrollWidth + " " + getComputedStyle(d.body).backgroundColor).join("\\n") }</script>""",
        encoding="utf-8",
    )
    (lines,) = re.findall("<pre>(.*?)</pre>", browse(folder, file.as_uri(), *options), re.DOTALL)
    return [(int(width), colour) for width, _, colour in (line.partition(" ") for line in lines.splitlines())]
