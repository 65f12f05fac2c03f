"""The page of the tutorial, typed from top to bottom: its query is killed, resumed, and has lost nothing."""

import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.command import PATIENCE_S, await_that, started
from tests.support.pages import ROOT, Block, blocks, cells
from tidegate.cli import app
from tidegate.servers.server import free_ports

PAGE = "docs/tutorial.md"
ORDERS = 3 * 4_320 + 720  # as the page says
PROGRAM = "count_orders.py"
IN_BACKGROUND = {"query.awaitTermination()": "", 'tidegate.report(query, "orders.html")': ""}


class Reader:
    """Types the commands of the page, and runs its programs in the Spark of all tests.

    The query that the page kills is only stopped: ``tests/sources/test_kills.py`` kills.

    own: the folder that this Spark reads and writes, for Java is in another one than this process.
    ending: ends what was started.
    """

    def __init__(self, own, ending):
        self._own, self._ending, self._killed = own, ending, None

    def type(self, block):
        if block.language == "python" and not Path(PROGRAM).exists():
            Path(PROGRAM).write_text(block.text)
        elif block.language == "python":
            self._run(block.text)
        elif not block.language:
            for line in block.text.splitlines():
                self._type(*shlex.split(line))

    def _type(self, program, *arguments):
        arguments = tuple(word for word in arguments if word != "&")
        if arguments[0] == "kafka":
            assert self._ending.enter_context(started(*arguments)).stdout.readline()
        elif program == "tidegate":
            app([*arguments, "--once"], standalone_mode=False)
        elif program == "kill":
            self._killed.stop()
        elif arguments != (PROGRAM,):
            subprocess.run([sys.executable, *arguments], check=True, timeout=PATIENCE_S)
        elif self._killed is None:
            self._killed = self._run(Path(PROGRAM).read_text(), IN_BACKGROUND)["query"]
            self._ending.callback(self._killed.stop)
            await_that(Path("checkpoint/commits/1").exists)  # two batches are written
        else:
            self._run(Path(PROGRAM).read_text())

    def _run(self, text, own=None):
        names = {}
        Block(PAGE, 1, "python", text).with_own({**self._own, **(own or {})}).run(names)
        return names


def test_the_tutorial_runs_from_top_to_bottom(spark, tmp_path, monkeypatch, capfd):
    (port,) = free_ports(1)
    assert f"{ORDERS:,}" in (ROOT / PAGE).read_text()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is the session of all tests
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    shown, commits = [], []
    with ExitStack() as ending:
        reader = Reader({f'"{name}"': f'"{tmp_path}/{name}"' for name in ("counts", "checkpoint")}, ending)
        for block in (block for block in blocks(PAGE) if block.language != "text"):  # what commands print
            # Six hours in half as many batches as on the page.
            reader.type(block.with_own({"9092": str(port), '"30 minutes"': '"1 hour"'}))
            shown.append(capfd.readouterr().out)
            commits.append(len([*Path("checkpoint/commits").glob("[0-9]*")]))
    spark.conf.set("spark.sql.shuffle.partitions", partitions)

    assert any("orders at localhost" in text for text in shown)
    assert 0 < commits[-3] < commits[-2]  # when it was killed, and when it was resumed
    orders, _, still_open = [number for row in cells(shown[-1]) for number in row]
    assert orders + still_open == ORDERS
    assert orders > ORDERS - 3_000  # the delay keeps those of the last half hour in state
    assert "orders-3" in Path("orders.html").read_text()
