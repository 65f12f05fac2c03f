"""The daemon of Python workers.  ``test_settings`` and ``tests/examples`` run it in Spark."""

import os
import subprocess
import sys

WORKER = """
import socket
from pyspark import daemon
from tidegate.sources.session import worker_daemon

for worker in (daemon.worker, worker_daemon.worker):
    ours, javas = socket.socketpair()
    javas.close()  # as when a session ends, or after a minute without a task
    try:
        print(worker(ours, True))
    except BrokenPipeError:
        print("PySpark prints this")
"""


def test_a_worker_whose_connection_java_has_closed_ends_quietly():
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true"}  # as Spark sets it
    ended = subprocess.run([sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout.split("\n")[:-1], ended.stderr) == (["PySpark prints this", "1"], "")
