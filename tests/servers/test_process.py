import socket
import subprocess

import pytest

from tests.support.command import await_that
from tidegate.errors import ServerError
from tidegate.servers.process import Sandbox


def is_gone(pid):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S607
    return state.stdout.strip()[:1] in ("", "Z")


def is_free(address):
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_children_of_children_end_too(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        process = sandbox.spawn(["sh", "-c", "sleep 60 & echo $!; wait"], sandbox.folder / "log")
        process.wait_until(lambda: process.log.read_text().endswith("\n"), 10)
        grandchild = int(process.log.read_text())
        assert not is_gone(grandchild)
    await_that(lambda: is_gone(grandchild))


def test_a_process_that_ends_early_shows_the_end_of_its_log(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        process = sandbox.spawn(["sh", "-c", "echo no such thing; exit 3"], sandbox.folder / "thing.log")
        with pytest.raises(ServerError, match=r"\(thing\) ended with code 3 .*\nno such thing"):
            process.wait_until(lambda: False, 10)


def test_a_process_that_is_never_ready_meets_the_deadline(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        process = sandbox.spawn(["sleep", "60"], sandbox.folder / "thing.log")
        with pytest.raises(ServerError, match=r"not ready after 0\.1 s; its log is empty"):
            process.wait_until(lambda: False, 0.1)
