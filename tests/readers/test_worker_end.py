"""Workers whose connection Java has closed.  ``tests/examples`` looks at what Spark prints."""

import os
import subprocess
import sys

WORKER = """
import socket, sys
from importlib.util import find_spec
from pyspark.daemon import worker
from tidegate.readers.worker_end import end_quietly

sys.modules["__main__"].__spec__ = find_spec("pyspark.daemon")
for _ in range(2):
    ours, javas = socket.socketpair()
    javas.close()  # as when a session ends, or after a minute without a task
    try:
        print(worker(ours, True))
    except BrokenPipeError:
        print("PySpark prints this")
    end_quietly()
"""


def test_a_worker_that_has_had_a_source_ends_quietly_when_java_closes_its_connection():
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true"}  # as Spark sets it
    ended = subprocess.run([sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout.split("\n")[:-1], ended.stderr) == (["PySpark prints this", "1"], "")
