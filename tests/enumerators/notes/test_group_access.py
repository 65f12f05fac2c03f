"""The folder of a group: who may see it, the lease of a process, and the notes of a dead process."""

import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.enumerators.notes.group_members import Member
from tests.support.command import await_that
from tests.support.logs import Clock, Logs
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.notes.application import application_notes, applications, remove_forgotten
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.errors import ConnectorError

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def test_others_can_neither_enter_the_folder_nor_read_a_note(tmp_path):
    member = Member(Clock(), Logs(a=[1]))
    member.plan()
    (root,) = tmp_path.iterdir()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert [
        (path.is_dir(), oct(mode)) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)
    ] == []
    assert any(path.is_file() for path in modes)
    member.run.close()
    assert list(root.iterdir()) == []


def test_a_folder_that_is_a_link_or_open_to_others_is_neither_read_nor_swept(tmp_path):
    folder = application_notes("app")
    folder.write("x", {"low": 1})
    (root,) = tmp_path.iterdir()
    yesterday = time.time() - 25 * 3600
    for path in root.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere")
    remove_forgotten()
    assert (folder.read("x"), list(folder.notes()), applications()) == (None, [], {})
    folder.remove("x")
    assert (tmp_path / "elsewhere" / "app" / "x.json").exists()


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    (tmp_path / f"tidegate-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(ConnectorError, match="belongs to another user, or others may enter it"):
        Member(Clock(), Logs(a=[1])).plan()


def test_a_note_that_cannot_be_reached_ends_the_plan_of_a_member_but_is_none_to_others(monkeypatch):
    folder = application_notes("app").within("groups", "join")
    folder.write("x", {"low": 1})

    def refuse(path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert (folder.read("x"), folder.names()) == (None, ["x"])
    with pytest.raises(ConnectorError, match="Too many open files"):
        Member(Clock(), Logs(a=[1])).plan()


def test_what_a_dead_application_left_behind_is_dropped_after_a_day(tmp_path):
    folder = application_notes("app-1").within("groups", "join")
    folder.write("x", {"low": 1})
    remove_forgotten()
    assert [[*applications(*names)] for names in (["groups", "join"], ["told"])] == [["app-1"], []]
    yesterday = time.time() - 25 * 3600
    for path in tmp_path.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    remove_forgotten()
    assert list(tmp_path.glob("*/*")) == []


HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.notes.application import application_notes
group = GroupFolder(application_notes("app").within("groups", "join"), 10, lease_s=float(sys.argv[2]))
group.join({"id": "holder"})
group.tell(100)
print("told", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_the_lease_of_a_process_is_kept_by_a_thread_and_ends_with_a_kill(tmp_path):
    lease_s, now = 10.0, 0.0
    folder = application_notes("app").within("groups", "join")
    clocks = Clocks(monotonic=lambda: now)
    group = GroupFolder(folder, 10, lease_s=lease_s, clocks=clocks)
    group.join({"id": "me"})

    def renewal():
        return dict(folder.notes())["holder"]["renewal"]

    def held_by():
        return group.bound(500, None).held_by

    holder = [sys.executable, "-c", HOLDER, str(tmp_path), str(lease_s)]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"told\n"
        assert held_by() == "holder"
        first = renewal()
        await_that(lambda: renewal() != first)
        now += lease_s + 0.1
        assert held_by() == "holder"
        process.kill()
        process.wait()
        group.renew()
        now += lease_s - 0.1
        assert held_by() == "holder"
        now += 0.2
        assert held_by() is None
