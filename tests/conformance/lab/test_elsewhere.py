"""Failures in another process are reported by this one."""

import os
import signal
import sys
import threading
import time
from types import ModuleType

import pytest

from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab import elsewhere as other_process
from tidegate.conformance.lab.elsewhere import elsewhere


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
        elsewhere(function)


def test_a_thread_keeps_no_process_after_its_result():
    assert elsewhere(leaves_a_thread) == "held"


def test_a_call_that_hangs_is_a_complaint(monkeypatch):
    monkeypatch.setattr(other_process, "_DEADLINE_S", 0.1)
    with pytest.raises(ConformanceError, match=r"sleep\(\) did not end within 0\.1 s in another process"):
        elsewhere(time.sleep, 3_600)


def test_a_function_that_is_not_found_there_is_a_complaint(monkeypatch):
    module = ModuleType("nowhere_else")
    exec("def here():\n    pass", module.__dict__)  # noqa: S102 - only this process knows it
    monkeypatch.setitem(sys.modules, "nowhere_else", module)
    with pytest.raises(ConformanceError, match="No module named 'nowhere_else'"):
        elsewhere(module.here)
