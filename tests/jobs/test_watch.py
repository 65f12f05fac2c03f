"""The table of tidegate watch, from the notes that planners leave, and queries that are followed batch by batch."""

import errno
import io
import json
import operator
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.support.logs import Clock
from tests.support.progresses import HOUR, NOON, one, report
from tidegate.enumerators import process_identity
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import PROGRESS, NoteFolder, ProgressNote
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.pace import BATCHES, batch_note
from tidegate.jobs import session as followed
from tidegate.jobs.session import follow
from tidegate.jobs.watch import group_sources, live_sources, live_table
from tidegate.readers.s3.config import S3ConnectionConfig

AT_NOON = datetime.fromtimestamp(NOON / 1000, timezone.utc)


def leave_note(reads="orders at kafka:9092", application="app-1", **fields):
    """Leave the note of a planner; return it, so that it can be written again."""
    note = ProgressNote(application_notes(application), "kafka", reads)
    note.write(report(**fields))
    return note


def leave_batch(query, application="app-1", dropped=0):
    """Leave the note of a batch for the only planner of an application."""
    folder = application_notes(application)
    ((planner, _),) = folder.within(PROGRESS).notes()
    folder.within(BATCHES).write(planner, batch_note({}, 1.0, query, dropped))


@pytest.fixture(autouse=True)
def no_other_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def shown(sources, now=AT_NOON, width=200):
    output = io.StringIO()
    Console(width=width, file=output).print(live_table(sources, now))
    return output.getvalue()


def test_nothing_that_runs_is_a_sentence():
    assert live_sources() == []
    assert shown([]) == "No running tidegate source of yours is found.\n"


def test_every_source_is_a_row_with_what_it_reads_and_what_holds_it():
    leave_note()
    leave_note("payments at kafka:9092", heldBy="orders-0", application="app/2")
    sources = live_sources()
    assert {(source.reads, source.application) for source in sources} == {
        ("orders at kafka:9092", "app-1"),
        ("payments at kafka:9092", "app/2"),
    }
    text = shown(sources)
    for expected in (
        "orders at kafka:9092",
        "app/2",
        "watermark 2023-11-15 11:59:00",
        "bound     2023-11-15 13:00:00",
        "held by   orders-0",
        "unread    900 rows",
        "behind    5 h",
        "1 reading",
    ):
        assert expected in text
    assert "late" not in text


def test_a_query_is_shown_by_its_name_once_a_batch_has_told_it():
    leave_note()
    assert [source.query for source in live_sources()] == [None]
    leave_batch("orders by country")
    assert shown(live_sources()).splitlines()[3].strip().startswith("orders by country ")


def test_a_name_cannot_command_the_terminal():
    escape = "\x1b]0;owned\x07"
    leave_note(f"orders{escape}", f"app{escape}", heldBy=f"orders{escape}-0", lateSplits=[f"orders{escape}-7"])
    leave_batch(f"counts{escape}", application=f"app{escape}")
    text = shown(live_sources())
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count(r"\x1b]0;owned\x07") == 5


def test_what_a_person_should_look_at_is_named():
    leave_note(
        splits={"paused": 5},
        paused={f"orders-{n}": NOON - (n + 1) * HOUR for n in range(5)},
        lateRowsTotal=1_700,
        lateSplits=["orders-7"],
        timeToDeletion={"orders-8": 7_000_000, "orders-9": 340_000},
    )
    text = shown(live_sources())
    for expected in (
        "orders-4 paused for 5 h",
        "orders-2 paused for 3 h",
        "1,700 rows read behind the watermark",
        "orders-7 is late",
        "orders-9 deleted in 5 min 40 s",
    ):
        assert expected in text
    assert "orders-1 paused" not in text


def test_another_process_with_the_number_of_a_planner_that_was_killed_is_not_shown(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: other.pid)
            leave_note()
        assert live_sources() == []


@pytest.mark.parametrize("shown", [True, False])
def test_without_the_names_that_linux_has_a_process_of_someone_else_is_no_planner(monkeypatch, tmp_path, shown):
    monkeypatch.setattr(process_identity, "_BOOT", tmp_path / "missing")
    leave_note()
    if shown:
        assert len(live_sources()) == 1
        return

    def refuse(pid, signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert live_sources() == []


def test_a_narrow_terminal_loses_no_time_and_no_figure():
    leave_note(rowsRemaining=123_456_789, eventTimeLag=5 * HOUR + HOUR // 2)
    leave_note("payments-of-all-countries at kafka-0.internal:9092", heldBy="payments-of-all-countries-since-2019-17")
    text = shown(live_sources(), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "2023-11-15 13:00:00" in text
    assert "123,456,789 rows" in text
    assert "1 reading" in text
    assert "…" not in text


def test_nothing_to_read_is_not_behind_and_what_is_unknown_is_a_dash():
    leave_note(rowsRemaining=0, watermark=None, bound=None, heldBy=None, splits={"caught up": 1})
    text = shown(live_sources(), AT_NOON + timedelta(days=1))
    assert "behind" not in text
    assert "watermark -" in text
    assert "held by   -" in text


def test_a_note_of_another_version_hides_no_other_source():
    leave_note()
    leave_note("payments at kafka:9092")
    folder = application_notes("app-1").within("progress")
    name, note = next(iter(folder.notes()))
    folder.write(name, {**note, "progress": {"watermark": NOON}})
    folder.write("older", {"pid": os.getpid()})
    assert len(live_sources()) == 1


def test_a_look_leaves_the_old_note_of_a_planner_whose_batches_take_days(tmp_path):
    leave_note()
    (patient,) = tmp_path.rglob("*/progress/*.json")
    leave_note("payments at kafka:9092")
    os.utime(patient, (1, 1))
    for _ in range(2):
        assert len(live_sources()) == 2


def test_a_note_that_cannot_be_read_hides_no_other_source(tmp_path, monkeypatch):
    leave_note()
    (broken,) = tmp_path.rglob("*/progress/*.json")
    leave_note("payments at kafka:9092")
    read = Path.read_bytes

    def refuse(path):
        if path == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert [source.reads for source in live_sources()] == ["payments at kafka:9092"]


def test_rows_that_a_query_has_dropped_as_late_are_told():
    leave_note()
    leave_batch("orders by country", dropped=5)
    assert "at least 5 rows dropped as late" in shown(live_sources())


def test_a_note_goes_with_its_planner():
    leave_note().remove()
    assert live_sources() == []


def test_members_of_groups_are_shown_by_their_notes_from_any_machine(tmp_path, tidegate):
    location = open_folder(str(tmp_path / "shared"), S3ConnectionConfig(), option="alignmentLocation", noun="location")
    orders, payments, new = members = [
        GroupFolder(NoteFolder(location).within("a/b"), HOUR, reads=reads, clocks=Clock().clocks)
        for reads in ("orders at kafka:9092", "payments at kafka:9092", "new at kafka:9092")
    ]
    for member in members:
        member.join(None)
        member.tell(NOON)
    assert group_sources(location) == []
    for member, bound in (orders, NOON), (payments, NOON + HOUR):
        member.show(report(bound=bound))
        member.renew()
    assert new.bound(NOON, None).low_ms == NOON  # the others still count
    assert {(source.reads, source.application, source.progress.bound) for source in group_sources(location)} == {
        ("orders at kafka:9092", "group a/b", AT_NOON),
        ("payments at kafka:9092", "group a/b", AT_NOON + timedelta(hours=1)),
    }
    orders.leave()
    assert "heard of " in shown(group_sources(location))
    code, table, errors = tidegate("watch", "--once", "--alignment-location", tmp_path / "shared")
    assert (code, errors) == (0, "")
    assert "payments at kafka:9092" in table
    assert "orders at kafka:9092" not in table


def places(value, place=()):
    """Yield where values are in a note, the note itself included."""
    yield place
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inside:
        yield from places(child, (*place, key))


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["\ud800", -1, 2**63, 10**400]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=3,
)


@pytest.mark.parametrize("folder", [PROGRESS, BATCHES])
@given(st.data())
def test_a_hostile_note_hides_no_other_source(folder, data):
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", root)
        leave_note(paused={"orders-1": NOON}, lateSplits=["orders-7"], timeToDeletion={"orders-8": HOUR})
        leave_batch("counts", dropped=1)
        leave_note("payments at kafka:9092", application="app-2")
        (file,) = Path(root).rglob(f"app-1/{folder}/*.json")
        note = json.loads(file.read_text())
        *above, last = data.draw(st.sampled_from([place for place in places(note) if place]))
        reduce(operator.getitem, above, note)[last] = data.draw(HOSTILE)
        file.write_text(json.dumps(note))
        assert "payments at kafka:9092" in shown(live_sources())


class Query:
    """A query of which Spark keeps ten batches; ``asked`` counts how often all of them were asked for."""

    def __init__(self, first):
        self.isActive = True
        self.asked = 0
        self.done = [first - 1]
        self.ended = self.is_idle = False

    def run(self, batches):
        self.done += range(self.done[-1] + 1, self.done[-1] + 1 + batches)

    @property
    def _kept(self):
        progresses = [one(number) for number in self.done[1:]]
        if self.is_idle:
            progresses.append(one(self.done[-1] + 1) | {"durationMs": {"triggerExecution": 7}})
        return [SimpleNamespace(batchId=each["batchId"], json=json.dumps(each)) for each in progresses[-10:]]

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        return self._kept[-1] if self._kept else None

    @property
    def recentProgress(self):  # noqa: N802 - Spark's name
        self.asked += 1
        return self._kept

    def awaitTermination(self):  # noqa: N802 - Spark's name
        pass

    def stop(self):
        self.ended = True


def test_a_trigger_that_found_nothing_is_no_batch(monkeypatch):
    query, steps = Query(first=7), iter([0, 2, 0, 1])

    def sleep(_):
        query.is_idle = query.done[-1] == 8
        query.isActive = (batches := next(steps, None)) is not None
        query.run(batches or 0)

    monkeypatch.setattr(followed.time, "sleep", sleep)
    assert [batch.number for batch in follow(query)] == [7, 8, 9]


def test_all_that_spark_keeps_is_asked_for_only_after_more_than_one_batch(monkeypatch):
    """Batches that Spark no longer keeps leave a gap in the numbers."""
    query, steps = Query(first=7), iter([0, 1, 1, 0, 3, 0, 1, 15])

    def sleep(_):
        if (batches := next(steps, None)) is None:
            query.isActive = False
        else:
            query.run(batches)

    monkeypatch.setattr(followed.time, "sleep", sleep)
    assert [batch.number for batch in follow(query)] == [*range(7, 13), *range(18, 28)]
    assert query.asked == 3  # the first batch of a run that goes on, three at once, and fifteen
    assert query.ended
