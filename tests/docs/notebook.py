"""Makes the notebook of the tutorial from its page: the same text, and the same programs in cells.

python -m tests.docs.notebook

A page has terminals where a notebook has one kernel.  So Kafka and the first run of the program are started in the
background, ``watch`` looks once, and a cell waits before the kill.
"""

from __future__ import annotations

import json
import re

from tests.support.pages import ROOT

PAGE, NOTEBOOK = ROOT / "docs/tutorial.md", ROOT / "docs/tutorial.ipynb"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_SAVED_AS = re.compile(r"Save this program as `([\w.]+)`:\s*$")
BEGIN = """\
The notebook is the [tutorial](tutorial.md) in cells. `scripts/notebook` opens it. What the tutorial types into other
terminals is started in the background here. Everything is written into the folder above this one: the checkout."""
IN_CHECKOUT = "%cd -q .."
SERVE = """\
import shlex
import subprocess
import sys
import time
from pathlib import Path

kafka = subprocess.Popen(shlex.split("{command}"), stdout=subprocess.PIPE, text=True)
kafka.stdout.readline()  # its address: it is ready"""
FIRST_RUN = """\
run = subprocess.Popen([sys.executable, "{program}"])
while run.poll() is None and not Path("checkpoint/commits/1").exists():  # until two batches are written
    time.sleep(0.2)  # a folder does not tell when a file comes"""
KILL = "run.kill()  # as {command} would"
END = "kafka.terminate()"


def notebook(page: str) -> dict:
    """Return the notebook of a page, as JSON of nbformat 4.5."""
    cells = [_text(BEGIN), _code(IN_CHECKOUT)]
    place, runs = 0, 0
    for block in _BLOCK.finditer(page):
        language, code = block.group(1), block.group(2).rstrip("\n")
        if language not in {"", "python"}:  # shown, not run
            continue
        before = page[place : block.start()].strip("\n")
        cells.append(_text(before))
        place = block.end()
        if language == "python":
            saved = _SAVED_AS.search(before)
            cells.append(_code(f"%%writefile {saved[1]}\n{code}" if saved else code))
            continue
        for command in code.splitlines():
            if command.startswith("tidegate kafka"):
                cells.append(_code(SERVE.format(command=command)))
            elif command == "tidegate watch":
                cells.append(_code("!tidegate watch --once"))
            elif command.startswith("pkill"):
                cells.append(_code(KILL.format(command=command)))
            elif command == "python count_orders.py" and not runs:
                runs += 1
                cells.append(_code(FIRST_RUN.format(program="count_orders.py")))
            else:
                cells.append(_code(f"!{command}"))
    cells += [_text(page[place:].strip("\n")), _code(END)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def to_text(made: dict) -> str:
    return json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _text(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(source: str) -> dict:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}


def main() -> None:
    NOTEBOOK.write_text(to_text(notebook(PAGE.read_text())))


if __name__ == "__main__":
    main()
