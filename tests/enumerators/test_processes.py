"""Threads that no process waits for, and the names that tell processes apart."""

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from tests.support.command import await_that
from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.process_identity import has_ended, runs, this_process

NAMED = [
    sys.executable,
    "-c",
    "from tidegate.enumerators.process_identity import this_process; print(this_process(), flush=True)",
]
WAITS = [*NAMED[:2], f"{NAMED[2]}; input()"]

knows_processes = pytest.mark.skipif(not this_process(), reason="the system does not say enough of its processes")


@knows_processes
def test_a_process_runs_until_it_has_ended():
    assert runs(this_process())
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        name = other.stdout.readline().strip()
        assert runs(name)
        assert not has_ended(name)
    assert runs(name) is False
    assert has_ended(name)


@knows_processes
def test_a_process_whose_parent_has_not_asked_for_its_end_has_ended():
    with subprocess.Popen(NAMED, stdout=subprocess.PIPE, text=True) as other:
        name = other.stdout.readline().strip()
        assert other.stdout.read() == ""  # it is about to end, or has
        while not has_ended(name):  # until the test's time is over
            pass
        assert other.returncode is None


@knows_processes
def test_a_process_that_got_the_number_of_another_one_is_not_that_one():
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        ours, theirs = this_process().split(" "), other.stdout.readline().split()
        assert has_ended(" ".join([*theirs[:-1], str(int(theirs[-1]) - 1)]))
        assert has_ended(" ".join([*theirs[:-1], ours[-1]]))


@knows_processes
@pytest.mark.parametrize("name", ["", "elsewhere", "another-boot pid:[1] 1 1"])
def test_of_a_process_elsewhere_nothing_can_be_told(name):
    assert runs(name) is None
    assert not has_ended(name)


def named(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_calls_are_made_by_no_more_threads_than_there_may_be_and_answer_in_their_order():
    barrier = threading.Barrier(3, timeout=60)

    def call(number):
        barrier.wait()
        return number, len(named("calls"))

    with DaemonThreads(3, "calls") as threads:
        assert list(threads.map(call, range(9))) == [(number, 3) for number in range(9)]
    assert named("calls") == []


def test_a_thread_that_has_nothing_to_do_is_used_again():
    with DaemonThreads(3, "again") as threads:
        for _ in range(5):
            threads.submit(int).result()
            await_that(lambda: threads._idle == len(threads._threads))
        assert len(named("again")) == 1


def test_at_the_end_what_waits_is_cancelled_and_what_is_under_way_ends():
    go_on, begun = threading.Event(), threading.Event()
    threads = DaemonThreads(1, "ends")
    first = threads.submit(lambda: (begun.set(), go_on.wait(60)))
    waiting = threads.submit(int)
    assert begun.wait(60)
    threads.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(RuntimeError, match="'ends' have ended"):
        threads.submit(int)
    go_on.set()
    threads.shutdown()
    assert first.result() == (None, True)
    assert named("ends") == []


def test_a_process_ends_without_them():
    script = (
        "import time\nfrom tidegate.enumerators.daemon_threads import DaemonThreads\n"
        "DaemonThreads(1, 'hangs').submit(time.sleep, 600)"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=30, check=False).returncode == 0
