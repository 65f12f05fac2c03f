"""The name of a process distinguishes it from others that had, or get, its number."""

import subprocess
import sys

import pytest

from tidegate.enumerators.process_identity import has_ended, runs, this_process

NAMED = [
    sys.executable,
    "-c",
    "from tidegate.enumerators.process_identity import this_process; print(this_process(), flush=True)",
]
WAITS = [*NAMED[:2], f"{NAMED[2]}; input()"]

pytestmark = pytest.mark.skipif(not this_process(), reason="the system does not say enough of its processes")


def test_a_process_runs_until_it_has_ended():
    assert runs(this_process())
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        name = other.stdout.readline().strip()
        assert runs(name)
        assert not has_ended(name)
    assert runs(name) is False
    assert has_ended(name)


def test_a_process_whose_parent_has_not_asked_for_its_end_has_ended():
    with subprocess.Popen(NAMED, stdout=subprocess.PIPE, text=True) as other:
        name = other.stdout.readline().strip()
        assert other.stdout.read() == ""  # it is about to end, or has
        while not has_ended(name):  # until the test's time is over
            pass
        assert other.returncode is None


def test_a_process_that_got_the_number_of_another_one_is_not_that_one():
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        ours, theirs = this_process().split(" "), other.stdout.readline().split()
        assert has_ended(" ".join([*theirs[:-1], str(int(theirs[-1]) - 1)]))
        assert has_ended(" ".join([*theirs[:-1], ours[-1]]))


@pytest.mark.parametrize("name", ["", "elsewhere", "another-boot pid:[1] 1 1"])
def test_of_a_process_elsewhere_nothing_can_be_told(name):
    assert runs(name) is None
    assert not has_ended(name)
