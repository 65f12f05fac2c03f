"""Workers whose connection Java has closed.  ``tests/examples`` looks at what Spark prints."""

import os
import subprocess
import sys

WORKER = """
import socket, sys
from pyspark import daemon
from tidegate.readers.spark_worker import end_quietly

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


def test_a_worker_that_got_a_source_ends_quietly_when_java_closes_its_connection():
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true"}  # as Spark sets it
    ended = subprocess.run([sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, check=True)
    before, after = ended.stderr.split("after\n")
    assert ("BrokenPipeError" in before, "ZeroDivisionError" in before) == (True, True)
    assert after.startswith("Traceback")
    assert after.endswith("\nZeroDivisionError: division by zero\n")
    assert after.count("Error") == 1
