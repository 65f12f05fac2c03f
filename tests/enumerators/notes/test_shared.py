"""Members of a group that meet in a folder which several applications share."""

import json
import os
from datetime import timedelta

import pytest

from tests.enumerators.notes.group_members import LEASE_S, Member
from tests.support.logs import Clock, Logs
from tidegate.alignment.group import GroupBound
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.notes.application import application_notes, others_with
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.notes.others import NOTE_LAYOUT, OtherMembers
from tidegate.errors import ConnectorError

REPEAT_S = 1.0


@pytest.fixture
def notes(location, config):
    """Make the notes of a member; each member has its own, as on different machines."""
    return lambda **settings: NoteFolder(open_folder(location, config), REPEAT_S, **settings).within("join")


def tick(*clocks, seconds=REPEAT_S):
    """Let time pass on machines whose clocks have nothing to do with each other."""
    for clock in clocks:
        clock.sleep(seconds)


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
DAMAGED = [
    *(
        json.dumps(note).encode()
        for note in ({}, [], 7, {"member": {"age": 7}, "plans": 1, "run": "r", "v": NOTE_LAYOUT, "renewal": 1})
    ),
    *(
        json.dumps({"member": {**WHOLE, **change}, "plans": 1, "run": "r", "v": NOTE_LAYOUT, "renewal": 2}).encode()
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
    notes().write("other", {"member": WHOLE, "plans": 1, "run": "r", "v": NOTE_LAYOUT, "renewal": 1})
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
