"""Failures in another process are reported by this one, and so is a Spark that does not start."""

import os
import signal
import subprocess
import sys
import threading
import time
from types import ModuleType

import pytest

from tidegate.conformance.harness import ConformanceError
from tidegate.conformance.lab import processes
from tidegate.conformance.lab.processes import in_another_process


def a_lock():
    return threading.Lock()


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def leaves_a_thread():
    threading.Thread(target=threading.Event().wait).start()
    return "held"


@pytest.mark.parametrize(
    ("function", "complaint"),
    [(a_lock, r"cannot pickle '_thread\.lock' object"), (dies, r"another process died in dies\(\)")],
)
def test_what_cannot_come_back_is_a_complaint(function, complaint):
    with pytest.raises(ConformanceError, match=complaint):
        in_another_process(function)


def test_a_thread_keeps_no_process_after_its_result():
    assert in_another_process(leaves_a_thread) == "held"


def test_a_call_that_hangs_is_a_complaint(monkeypatch):
    monkeypatch.setattr(processes, "_PROCESS_S", 0.1)
    with pytest.raises(ConformanceError, match=r"sleep\(\) did not end within .* s in another process"):
        in_another_process(time.sleep, 3_600)


def test_a_function_that_is_not_found_there_is_a_complaint(monkeypatch):
    module = ModuleType("nowhere_else")
    exec("def here():\n    pass", module.__dict__)  # noqa: S102 - only this process knows it
    monkeypatch.setitem(sys.modules, "nowhere_else", module)
    with pytest.raises(ConformanceError, match="No module named 'nowhere_else'"):
        in_another_process(module.here)


def test_without_java_the_session_ends_with_a_sentence(tmp_path):
    program = "from tidegate.conformance.lab.spark import shared_session; shared_session()"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stderr.splitlines()[-1] == (
        "tidegate.errors.InstallationError: Spark's Java does not start: Java 17 or newer is needed "
        f"(JAVA_HOME is {tmp_path})"
    )
