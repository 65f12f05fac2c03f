"""Failures in another process are reported by this one."""

import os
import signal
import sys
import threading
import time
from types import ModuleType

import pytest

from tests.conformance.small import SmallHarness, small_rule
from tidegate.conformance.checker import judge
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab import elsewhere
from tidegate.conformance.lab.elsewhere import Elsewhere
from tidegate.conformance.verdicts import Status


def a_lock():
    return threading.Lock()


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def never_ends():
    threading.Thread(target=threading.Event().wait).start()
    return "held"


@pytest.mark.parametrize(
    ("function", "complaint"),
    [(a_lock, r"cannot pickle '_thread\.lock' object"), (dies, r"another process died in dies\(\)")],
)
def test_what_cannot_come_back_is_a_complaint(function, complaint):
    with pytest.raises(ConformanceError, match=complaint):
        Elsewhere(function).result()


def test_a_process_that_a_thread_keeps_is_killed_after_its_result(monkeypatch):
    monkeypatch.setattr(elsewhere, "_ENDING_S", 0.1)
    process = Elsewhere(never_ends)
    assert process.result() == "held"
    assert process._process.returncode == -signal.SIGKILL


def test_a_process_in_which_a_rule_hangs_is_killed(hangs):
    processes = []

    def hangs_elsewhere(lab):
        processes.append(lab.elsewhere(time.sleep, 3_600))
        hangs.set()
        processes[0].result()

    assert judge(small_rule("READ-11", hangs_elsewhere), SmallHarness, deadline_s=0.1).status is Status.HUNG
    assert processes[0]._process.returncode == -signal.SIGKILL


def test_a_function_that_is_not_found_there_is_a_complaint(monkeypatch):
    module = ModuleType("nowhere_else")
    exec("def here():\n    pass", module.__dict__)  # noqa: S102 - only this process knows it
    monkeypatch.setitem(sys.modules, "nowhere_else", module)
    with pytest.raises(ConformanceError, match="No module named 'nowhere_else'"):
        Elsewhere(module.here).result()
