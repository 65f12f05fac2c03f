"""Lets what Spark's driver starts for each query begin in a tenth of the time: as forks of one process.

Python imports this module when it begins, in each process that has this folder on its PYTHONPATH.  Each query of the
tests starts a planner, and many another process for their state, and each would take a second to import the same.
Those of the session of all tests are forks of a process that has imported it (``forks``), and so are its workers.
Those of other programs import all by themselves, as those of users do.  But planners do without pandas, which PyArrow
would import.
"""

import os
import sys
from importlib.abc import MetaPathFinder

PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
STARTED = {PLANNER, "pyspark.sql.streaming.transform_with_state_driver_worker"}
PID_BYTES = 4


class WithoutPandas(MetaPathFinder):
    """Finds everything but pandas."""

    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("planners of tests do without pandas", name=name)


def stand_in(address):
    """Ask for a fork in the place of this process, and end with it."""
    import pickle
    import signal
    import socket

    with socket.socket(socket.AF_UNIX) as fork:
        fork.connect(address)
        socket.send_fds(fork, [b"."], [0, 1, 2])
        folder = os.getcwd()  # noqa: PTH109 - without pathlib it begins sooner
        fork.sendall(pickle.dumps((sys.orig_argv[-1], folder, sys.path, dict(os.environ))))
        with fork.makefile("rb") as answer:
            pid = int.from_bytes(answer.read(PID_BYTES), "big")
            signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
            code = answer.read()
    os._exit(code[0] if code else 1)


if STARTED.intersection(sys.orig_argv):
    if "TIDEGATE_FORKS" in os.environ:
        stand_in(os.environ["TIDEGATE_FORKS"])
    if PLANNER in sys.orig_argv:
        sys.meta_path.insert(0, WithoutPandas())
elif "TIDEGATE_FORKS" in os.environ and "pyspark.daemon" in sys.orig_argv:
    from forks import prepare

    prepare("pandas", "pyspark.worker")
