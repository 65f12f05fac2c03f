"""The commands of the README do what it says, from the first line to the last, in an empty folder."""

import os
import shlex
import subprocess
import sys
from collections import Counter

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.support.command import started
from tests.support.pages import ROOT, blocks
from tests.support.waiting import PATIENCE_S
from tidegate.servers.server import free_ports

ORDERS = {0: 4_320, 1: 4_320, 2: 4_320, 3: 720}  # by partition, one in 5 seconds


class Reader:
    """Types what a page says, line by line, with another port than it names."""

    def __init__(self):
        (port,) = free_ports(1)
        self._own = {"localhost:9092": f"localhost:{port}", "--port 9092": f"--port {port}"}
        self._kafka = None

    def type(self, block):
        own = block.with_own(self._own)
        if own.language == "text":  # what a program prints
            return
        if own.language == "python":
            own.run({})
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

    def close(self):
        if self._kafka is not None:
            self._kafka.__exit__(None, None, None)


@pytest.fixture
def reader():
    made = Reader()
    yield made
    made.close()


def test_the_readme_runs_from_top_to_bottom(reader, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stops, read = [], Counter()
    monkeypatch.setattr(SparkSession, "stop", lambda session: stops.append(session))  # noqa: PLW0108 - append is no method
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    listener = tidegate.on_progress(spark, lambda name, _, sources: read.update({name: sources[0].planned_rows}))
    try:
        for block in blocks("README.md"):
            reader.type(block)
    finally:
        spark.streams.removeListener(listener)
        spark.conf.set("spark.sql.shuffle.partitions", partitions)

    assert stops == [spark]
    assert sorted(read.values()) == [sum(ORDERS.values())]
