"""Every command that a page names exists, with the options that it is given."""

import re
import shlex

import typer

from tests.support.pages import PAGES, ROOT, blocks
from tidegate.cli import app

COMMANDS = typer.main.get_command(app)
KNOWN = {"python", "first.py", "count_orders.py"}  # what the README and the tutorial let a reader write


def commands():
    """Yield each command of the pages as (page, words): inline code, and the lines of blocks without a language."""
    for page in PAGES:
        text = page.read_text()
        lines = [line for block in blocks(page) if not block.language for line in block.text.splitlines()]
        inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
        for line in (*lines, *inline):
            if re.match(r"(tidegate|python|scripts/\w+)( |$)", line):
                yield page.name, shlex.split(line, comments=True)


def wrong(words):
    """Return what there is not in a command; None: all is there."""
    program, *rest = words
    if program == "tidegate":
        return wrong_argument(COMMANDS, rest)
    if rest[:1] == ["-m"]:
        return wrong_in_module(rest[1], [word for word in rest[2:] if word.startswith("--")])
    script = rest[0] if program == "python" and rest else program
    return None if script in KNOWN or (ROOT / script).exists() else script


def wrong_in_module(name, options):
    file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    file = file if file.exists() else file.with_suffix("") / "__main__.py"
    return next((o for o in options if o not in file.read_text()), None) if file.exists() else name


def wrong_argument(command, words):
    if subcommands := getattr(command, "commands", {}):
        if words and words[0] in subcommands:
            return wrong_argument(subcommands[words[0]], words[1:])
        if words and not words[0].startswith("-"):
            return words[0]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    return next((word for word in words if word.startswith("--") and word not in known), None)


def test_every_command_of_the_pages_exists_with_its_options():
    named = [*commands()]
    assert len(named) > 60
    assert [(page, " ".join(words), fault) for page, words in named if (fault := wrong(words)) is not None] == []
