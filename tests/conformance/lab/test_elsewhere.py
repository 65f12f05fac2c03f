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


@pytest.fixture
def process():
    made = Elsewhere()
    yield made
    made.kill()


def a_lock():
    return threading.Lock()


def test_a_process_that_died_before_it_was_asked_is_a_complaint_and_can_be_closed(process):
    os.killpg(process.call(os.getpgrp), signal.SIGKILL)
    process._process.wait()  # else it may take the question, and end because of it
    with pytest.raises(ConformanceError, match=r"another process died in getpid\(\)"):
        process.call(os.getpid)
    process.close()


def never_end():
    threading.Thread(target=threading.Event().wait).start()


def test_a_process_that_a_thread_keeps_is_killed_when_it_is_closed(process, monkeypatch):
    monkeypatch.setattr(elsewhere, "_ENDING_S", 0.1)
    process.call(never_end)
    process.close()
    assert process._process.returncode == -signal.SIGKILL


def test_a_process_in_which_a_rule_hangs_is_killed(hangs):
    processes = []

    def hangs_elsewhere(lab):
        processes.append(lab.elsewhere())
        hangs.set()
        processes[0].call(time.sleep, 3_600)

    assert judge(small_rule("READ-11", hangs_elsewhere), SmallHarness, deadline_s=0.1).status is Status.HUNG
    assert processes[0]._process.returncode == -signal.SIGKILL


def test_what_cannot_come_back_is_a_complaint_and_the_process_goes_on(process):
    with pytest.raises(ConformanceError, match=r"cannot pickle '_thread\.lock' object"):
        process.call(a_lock)
    assert process.call(os.getpid) != os.getpid()


def test_a_function_that_is_not_found_there_is_a_complaint_and_the_process_goes_on(process, monkeypatch):
    module = ModuleType("nowhere_else")
    exec("def here():\n    pass", module.__dict__)  # noqa: S102 - only this process knows it
    monkeypatch.setitem(sys.modules, "nowhere_else", module)
    with pytest.raises(ConformanceError, match="No module named 'nowhere_else'"):
        process.call(module.here)
    assert process.call(os.getpid) != os.getpid()
