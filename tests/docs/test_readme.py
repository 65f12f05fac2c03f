"""The commands of the README do what it says, from the first line to the last, in an empty folder.

An example for objects runs in the Spark of its program, as a person runs it: nothing of a first session reads like an
error.
"""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.command import PATIENCE_S, errors_in, started
from tests.support.pages import ROOT, blocks, cells
from tests.support.streams import HOUR, NOON, even_times
from tidegate.servers.server import free_ports

ORDERS = 3 * 4_320 + 720  # one in 5 seconds
FIRST_CONTACT = """
import runpy, sys
example, readme, objects = sys.argv[1:]
sys.argv = [example, objects, "state"]
runpy.run_path(example)
exec(readme)
"""


class Reader:
    """Types what a page says, line by line, with another port than it names.

    bucket: has the objects that an example counts.
    """

    def __init__(self, bucket):
        (port,) = free_ports(1)
        self._own = {"localhost:9092": f"localhost:{port}", "--port 9092": f"--port {port}"}
        self._kafka, self._bucket, self._programs = None, bucket, []
        self.shown = ""

    def type(self, block):
        own = block.with_own(self._own)
        if own.language == "text":  # what a program prints
            return
        if own.language == "python":
            self._programs.append(own.text)
            return
        for line in own.text.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            if program == "pip" or (program, *arguments[:1]) == ("tidegate", "preview"):
                continue  # tests/test_public_api.py previews without what pip would add
            if program.startswith("scripts/"):
                assert os.access(ROOT / program, os.X_OK)  # CI runs the one, and tests/jobs/demo what the other runs
            elif program == "python":
                subprocess.run([sys.executable, ROOT / arguments[0], *arguments[1:]], check=True, timeout=PATIENCE_S)
            else:
                assert (program, arguments[0]) == ("tidegate", "kafka")
                self._kafka = started(*arguments)
                assert self._kafka.__enter__().stdout.readline()

    def run(self):
        """Run the programs after the example, in a process of their own, and look for errors on stderr."""
        programs = "\n".join(self._programs)
        command = [sys.executable, "-c", FIRST_CONTACT, ROOT / "examples" / "objects.py", programs, self._bucket.path]
        environment = {**os.environ, **self._bucket.server.environment}
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert errors_in(ended.stderr) == []
        self.shown += ended.stdout

    def close(self):
        if self._kafka is not None:
            self._kafka.__exit__(None, None, None)


@pytest.fixture
def reader(bucket):
    for hour in range(5):
        times = even_times(NOON + hour * HOUR, NOON + (hour + 1) * HOUR, 60)
        bucket.put_rows(f"{(hour * 3) % 5}.parquet", [(n, int(t)) for n, t in enumerate(times)])
    made = Reader(bucket)
    yield made
    made.close()


def test_the_readme_runs_from_top_to_bottom(reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks("README.md"):
        reader.type(block)
    reader.run()
    # Of the objects: Spark's watermark trails the last row by 61 minutes.
    assert all(row in cells(reader.shown) for row in ([3, 180], [120]))
    counts = [int(count) for count in re.findall(r"^\|20.{17}\| +(\d+)\|$", reader.shown, re.MULTILINE)]
    assert ORDERS - 500 < sum(counts) <= ORDERS
    assert sum(int(sold) for sold in re.findall(r"^\|[ DEFRPL]+\| +(\d+)\|$", reader.shown, re.MULTILINE)) > ORDERS
    assert {180, 240} <= {*counts}  # and a window that the first order began, unless it began with the window
