"""The commands of the README do what it says, from the first line to the last, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.command import errors_in, started
from tests.support.pages import ROOT, blocks
from tests.support.waiting import PATIENCE_S
from tidegate.servers.server import free_ports

ORDERS = 3 * 4_320 + 720  # one in 5 seconds
FIRST_CONTACT = """
import runpy, sys
windows, readme, servers = sys.argv[1:]
sys.argv = [windows, servers, "orders"]
runpy.run_path(windows)
exec(readme)
"""


class Reader:
    """Types what a page says, line by line, with another port than it names."""

    def __init__(self):
        (port,) = free_ports(1)
        self._own = {"localhost:9092": f"localhost:{port}", "--port 9092": f"--port {port}"}
        self._kafka = None
        self.shown = ""

    def type(self, block):
        own = block.with_own(self._own)
        if own.language == "text":  # what a program prints
            return
        if own.language == "python":
            self._run(own.text)
            return
        for line in own.text.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            if program.startswith("scripts/"):
                assert os.access(ROOT / program, os.X_OK)  # CI runs the one, and tests/jobs/demo what the other runs
            elif program == "python":
                subprocess.run([sys.executable, ROOT / arguments[0], *arguments[1:]], check=True, timeout=PATIENCE_S)
            else:
                assert (program, arguments[0]) == ("tidegate", "kafka")
                self._kafka = started(*arguments)
                assert self._kafka.__enter__().stdout.readline()

    def _run(self, program):
        """Run a program after the example with windows, in a Spark of its own, and look for errors on stderr."""
        kafka = self._own["localhost:9092"]
        command = [sys.executable, "-c", FIRST_CONTACT, ROOT / "examples/windows.py", program, kafka]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert errors_in(ended.stderr) == []
        self.shown += ended.stdout

    def close(self):
        if self._kafka is not None:
            self._kafka.__exit__(None, None, None)


@pytest.fixture
def reader():
    made = Reader()
    yield made
    made.close()


def test_the_readme_runs_from_top_to_bottom(reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks("README.md"):
        reader.type(block)
    counts = [int(count) for count in re.findall(r"^\|20.{17}\| +(\d+)\|$", reader.shown, re.MULTILINE)]
    assert ORDERS - 500 < sum(counts) <= ORDERS
    assert {180, 240} < {*counts}
