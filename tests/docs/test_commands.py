"""Every command that a page names exists, with the options that it is given."""

import re
import shlex

import typer

from tests.docs import deploy
from tests.support.pages import PAGES, ROOT, blocks
from tidegate.cli import app
from tidegate.version import __version__

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


def test_the_page_on_deploying_has_the_commands_that_its_program_types():
    cluster, data, pack, submit, result, image = (block.text.splitlines() for block in deploy.commands())
    assert [line.split()[0] for line in (*cluster, *data)] == [
        *["PATH=$PWD/.venv/bin:$PATH"] * 2,
        ".venv/bin/tidegate",
        ".venv/bin/python",
    ]
    assert pack[0] == image[0] == "scripts/wheel dist"
    wheel = f"tidegate-{__version__}-py3-none-any.whl"  # an older one may lie beside it
    assert pack[2] == f"environment/bin/pip install dist/{wheel}"
    assert f"ARG WHEEL={wheel}\n" in (ROOT / "examples/deploy/Dockerfile").read_text()
    assert len(submit) == 2
    assert "count_orders.py localhost:9092 orders /tmp/orders" in submit[1]
    assert "orders/counts" in result[0]
