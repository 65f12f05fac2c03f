"""Spark for one job, in its own process: its begin and its end."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.command import PATIENCE_S, await_that, descendants

JAVA = "SparkSubmit"  # in the command line of Spark's Java, of the script that becomes it, and of what it starts
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
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert errors == f"Spark did not start with the master 'locale'; {tmp_path}/spark.log says why\n"


def test_an_interrupt_while_java_starts_leaves_no_java_behind(tmp_path):
    with session("local[1]", tmp_path) as process:
        started = []
        await_that(lambda: started.extend(descendants(process.pid, JAVA)[:1]) or started)
        (java,) = started
        try:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert errors == "interrupted\n"
            await_that(lambda: not Path(f"/proc/{java}").exists())
        finally:
            with suppress(ProcessLookupError):
                os.kill(java, signal.SIGKILL)


def test_a_signal_while_java_is_asked_prints_no_stack(tmp_path):
    with session("local[1]", tmp_path) as process:
        await_that((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert errors == "interrupted\n"
