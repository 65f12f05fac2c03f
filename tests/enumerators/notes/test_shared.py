"""The folder of a group: several applications that share it, who may see it, and the notes of a dead process."""

import errno
import json
import os
import stat
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.enumerators.notes.group_members import LEASE_S, Member, members, rounds
from tests.support.command import await_that
from tests.support.logs import Clock, Logs
from tidegate.alignment.group import GroupBound
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.notes.application import application_notes, applications, others_with, remove_forgotten
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.notes.others import NOTE_LAYOUT, OtherMembers
from tidegate.errors import ConnectorError
from tidegate.readers.s3.config import S3ConnectionConfig

REPEAT_S = 1.0


@pytest.fixture
def notes(location, config):
    """Make the notes of a member; each member has its own, as on different machines."""
    return lambda **settings: NoteFolder(open_folder(location, config), REPEAT_S, **settings).within("join")


def tick(*clocks, seconds=REPEAT_S):
    """Let time pass on machines whose clocks have nothing to do with each other."""
    for clock in clocks:
        clock.sleep(seconds)


@pytest.mark.parametrize("group", [".", "..", "../others", "a b/ü"])
def test_a_group_of_any_name_keeps_to_its_own_folder_of_the_location(tmp_path, group):
    location = open_folder(str(tmp_path / "lake" / "alignment"), S3ConnectionConfig())
    NoteFolder(location).within(group).write("member", {})
    (inside,) = location.folders()
    assert unquote(inside) == group
    assert [file.parent for file in tmp_path.rglob("*.json")] == [tmp_path / "lake" / "alignment" / inside]


def test_members_on_machines_whose_clocks_differ_keep_within_the_drift(notes):
    here, there = Clock(5.0), Clock(10_000_000.0)
    fast = Member(here, Logs(a=[1000, 1005, 2000]), notes=notes)
    slow = Member(there, Logs(a=[100, 1004, 1999]), notes=notes)
    batches = []
    for _ in range(5):
        batches.append((fast.plan(), slow.plan()))
        tick(here, there)
    assert batches == [([], []), ([], [100]), ([1000, 1005], [1004]), ([2000], [1999]), ([], [])]


def test_a_member_that_was_killed_holds_the_others_until_its_note_was_the_same_for_a_lease(notes):
    here, there = Clock(0.0), Clock(-1_000.0)
    fast, killed = Member(here, Logs(a=[1000]), notes=notes), Member(there, Logs(a=[100]), notes=notes)
    for member in (fast, killed):
        member.plan()
    killed.die()
    tick(here)
    assert fast.plan() == []
    tick(here, seconds=LEASE_S - 1)
    assert fast.plan() == []
    tick(here, seconds=2)
    assert fast.plan() == [1000]


def test_a_note_without_news_is_written_and_read_once_a_second_only(notes):
    clock, mine, others = Clock(), notes(), notes()
    asked = []
    write, read = mine.write, mine.notes
    mine.write = lambda *note: (asked.append("write"), write(*note))
    mine.notes = lambda: (asked.append("read"), read())[1]
    group = GroupFolder(mine, 10, clocks=clock.clocks)
    other = GroupFolder(others, 10, clocks=clock.clocks)
    for member, name in ((group, "me"), (other, "other")):
        member.join({"id": name})
    other.tell(500)
    for _ in range(20):
        assert group.bound(1000, None).held_by == "other"
        clock.sleep(0.1)
    assert 2 <= asked.count("write") <= 3
    assert 2 <= asked.count("read") <= 3
    asked.clear()
    group.tell(1001)
    group.tell(1002)
    assert asked == ["write", "write"]
    assert dict(notes().notes())["me"]["member"]["low_ms"] == 1002


def test_of_two_members_that_wake_at_once_one_sees_the_other(notes):
    clock = Clock()
    one, other = (GroupFolder(notes(), 10, clocks=clock.clocks) for _ in range(2))
    for member, name in ((one, "one"), (other, "other"), (one, "one"), (other, "other")):
        member.join({"id": name})
        member.bound(None, None)
        clock.sleep(0.6)
    assert one.bound(100, None).held_by is None
    assert other.bound(5000, None).held_by == "one"


WHOLE = {"id": "other", "max_drift_ms": 10, "joined": 1.0, "low_ms": 100, "reads": "orders"}
SAID = {"run": "r", "origin": "o", "v": NOTE_LAYOUT}
DAMAGED = [
    *(json.dumps(note).encode() for note in ({}, [], 7, {**SAID, "member": {"age": 7}, "renewal": 1})),
    *(
        json.dumps({**SAID, "member": {**WHOLE, **change}, "renewal": 2}).encode()
        for change in (
            {"low_ms": float("nan")},
            {"low_ms": 1e300},
            {"low_ms": 10**30},
            {"low_ms": "100"},
            {"low_ms": True},
            {"max_drift_ms": 0},
            {"joined": float("inf")},
            {"reads": ["orders"]},
            {"id": "another"},
            {"more": 1},
        )
    ),
    b"{",
    b"\xff\xfe",
    b"",
    b"[" * 100_000,
    b'{"member": ' * 3_000,
]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_note_that_cannot_be_read_counts_as_absent_is_named_and_its_lease_runs_out(
    notes, location, config, data, caplog
):
    clock = Clock()
    group = GroupFolder(notes(), 10, clocks=clock.clocks, lease_s=LEASE_S)
    group.join({"id": "me", "peers": {"other": ["r", 1]}})
    notes().write("other", {**SAID, "member": WHOLE, "renewal": 1})
    assert group.bound(1000, 5) == GroupBound(100, 110, "other")
    open_folder(location, config).within("join").write("other.json", data)
    for _ in range(2):
        clock.sleep(LEASE_S / 2 - 1)
        group.renew()
        assert group.bound(1000, 5) == GroupBound(100, 110, "other")
    clock.sleep(3)
    assert group.bound(1000, 5) == GroupBound()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the note 'other' in the alignment group cannot be read, so it counts as absent"
    ]


def test_a_query_that_ends_says_why_and_not_that_its_group_cannot_be_reached(tmp_path, config):
    location = tmp_path / "shared"
    group = GroupFolder(NoteFolder(open_folder(str(location), config)), 10, clocks=Clock().clocks)
    group.join({"id": "me"})
    group.tell(1)
    location.rename(tmp_path / "elsewhere")
    location.write_bytes(b"")
    with pytest.raises(ConnectorError, match="is not a folder"):
        group.renew()
    group.leave()


@pytest.mark.parametrize("is_renewed", [False, True])
def test_a_member_whose_place_is_emptied_reads_nothing_past_the_others_and_ends(notes, location, config, is_renewed):
    """An unmounted disk takes all notes at once, and members without a note look as if they had left."""
    clock = Clock()
    fast, slow = members(clock, [100, 500], [100, 300, 400], notes=notes)
    for _ in range(3):
        fast.plan()
        slow.plan()
        tick(clock)
    fast.plan()
    if is_renewed:  # it writes before it looks, but not always
        tick(clock, seconds=0.9)
        fast.group.tell_done(done=True)
        fast.group.tell_done(done=False)
    folder = open_folder(location, config).within("join")
    for name in folder.files():
        folder.delete(name)
    with pytest.raises(ConnectorError, match="join has lost the note of this query"):
        rounds(clock, [fast], 10)
    assert (len(fast.seen), len(slow.seen)) == (1, 2)
    fast.stop()
    for member in (fast, slow):
        member.start()
    assert rounds(clock, [fast, slow], 12) == {0: [], 1: [400]}


def test_the_first_look_of_a_member_removes_notes_that_nobody_renewed_for_more_than_a_week(notes, location, config):
    notes().write("old", {"renewal": "1"})
    folder = open_folder(location, config).within("join")
    due_s = folder.files()["old.json"].written_s + timedelta(days=8).total_seconds()
    for now, left in ((due_s - 1, ["old.json"]), (due_s + 1, [])):
        OtherMembers(notes(wall_clock=lambda now=now: now), LEASE_S, Clock()).look("me")
        assert list(folder.files()) == left


def test_other_files_are_no_notes(notes, location, config):
    open_folder(location, config).within("join").write("README.txt", b"{")
    assert list(notes().notes()) == []


@pytest.mark.usefixtures("own_temporary_folder")
def test_an_application_that_uses_the_name_of_a_group_is_known_to_others_while_it_lives(tmp_path):
    mine, other = (application_notes(name).within("groups", "a/b") for name in ("app 1", "app/2"))

    def found(group="a/b"):
        return others_with("app 1", "groups", group, within_s=10)

    assert found() == []
    mine.write("m", {})
    assert found() == []
    other.write("m", {})
    assert (found(), found("c")) == (["app/2"], [])
    for path in next(tmp_path.iterdir()).rglob("app%2F2/**/*"):
        os.utime(path, (1, 1))
    assert found() == []


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
