"""Spark for one job, in a process of its own: how it begins and ends."""

import signal
import subprocess
import sys
from contextlib import contextmanager

from tests.support.waiting import await_that

_SESSION = """
import sys, time
from pathlib import Path
from tidegate.errors import ServerError
from tidegate.jobs.session import spark_session

def work(folder):
    Path(folder, "begun").touch()
    time.sleep(60)  # the work itself, which the signal ends

class LosesJava:
    def __enter__(self):
        pass

    def __exit__(self, *_):  # PySpark's own contexts do so at times
        raise ConnectionError("Answer from Java side is empty")

master, folder = sys.argv[1:]
try:
    with spark_session(master, "test", Path(folder, "spark.log")) as spark:
        spark.sparkContext.pythonExec = sys.executable  # no source is registered, which does so
        with LosesJava():
            spark.sparkContext.parallelize([folder], 1).foreach(work)
except ServerError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@contextmanager
def session(master, folder):
    """Start a session whose only job waits for a minute."""
    command = (sys.executable, "-c", _SESSION, master, folder)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_master_that_is_none_is_one_sentence(tmp_path):
    with session("locale", tmp_path) as process:
        _, errors = process.communicate(timeout=60)
    assert errors == f"Spark did not start with the master 'locale'; {tmp_path}/spark.log says why\n"


def test_a_signal_while_java_is_asked_prints_no_stack(tmp_path):
    with session("local[1]", tmp_path) as process:
        await_that((tmp_path / "begun").exists, seconds=60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors == "interrupted\n"
