"""Python workers of Spark: the garbage collector skips their imports, and they print nothing of PySpark's own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.command import PATIENCE_S

TASKS = 10_000

PRELUDE = """
import gc, sys, weakref
from tidegate.sources import worker_daemon
from tidegate.sources.worker_daemon import freeze_imports

class Node:
    def __init__(self):
        self.itself, self.ballast = self, bytearray(20_000)

def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

def end_of_task():  # what pyspark.daemon does
    gc.collect()
"""


def run(script: str) -> str:
    """Run the code of a worker in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("of_a_task", ["freeze_imports(); tasks(); end_of_task()", "tasks(); worker_daemon.collect()"])
def test_memory_is_flat_over_ten_thousand_tasks_that_leave_garbage(of_a_task: str) -> None:
    script = f"""
import pyarrow, numpy
def tasks():
    for _ in range(3):
        Node()
sizes = []
for task in range({TASKS}):
    {of_a_task}
    if task % {TASKS // 10} == 99:
        sizes.append(resident_mib())
print(max(sizes) - min(sizes))
"""
    assert float(run(script)) < 4


def test_later_collections_see_nothing_of_what_was_there_before_and_no_garbage_is_kept() -> None:
    script = """
import pyarrow, numpy
before = len(gc.get_objects())
garbage = weakref.ref(Node())
freeze_imports()
assert garbage() is None, "garbage is kept for ever"
assert len(gc.get_objects()) < before / 20
"""
    run(script)


def test_imports_of_the_next_tasks_are_kept_out_too_and_then_nothing_more() -> None:
    script = """
freeze_imports()
import decimal, http.client
freeze_imports()
import xml.dom.minidom
freeze_imports()
frozen = gc.get_freeze_count()
kept = [Node() for _ in range(100)]
freeze_imports()
assert gc.get_freeze_count() == frozen
gone = weakref.ref(kept[0])
del kept
end_of_task()
assert gone() is None
"""
    run(script)


WORKER = """
import socket, sys
from pyspark import daemon
from tidegate.spark_private import end_quietly

sys.modules["__main__"] = daemon
for named in ("before", "after"):
    print(named, file=sys.stderr)
    ours, javas = socket.socketpair()
    javas.close()  # as when a session ends, or after a minute without a task
    for task in (lambda: daemon.worker(ours, True), lambda: 1 / 0):
        try:
            task()
        except Exception:
            daemon.traceback.print_exc()  # as its manager does
    end_quietly()
"""


def test_a_worker_that_got_a_source_ends_quietly_when_java_closes_its_connection() -> None:
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true"}  # as Spark sets it
    ended = subprocess.run([sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, check=True)
    before, after = ended.stderr.split("after\n")
    assert ("BrokenPipeError" in before, "ZeroDivisionError" in before) == (True, True)
    assert after.startswith("Traceback")
    assert after.endswith("\nZeroDivisionError: division by zero\n")
    assert after.count("Error") == 1


LOOKUP = """
import io, sys
from pyspark import daemon
from pyspark.sql.worker.lookup_data_sources import _main

sys.modules["__main__"] = daemon
found = io.BytesIO()
_main(io.BytesIO(), found)
from tidegate.spark_private import QUIET_TRACEBACK
print(daemon.traceback is QUIET_TRACEBACK, found.getvalue() == bytes(4))
"""


def test_the_worker_that_looks_for_data_sources_ends_quietly_after_an_idle_minute() -> None:
    found = subprocess.run([sys.executable, "-c", LOOKUP], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("True True\n", "")
