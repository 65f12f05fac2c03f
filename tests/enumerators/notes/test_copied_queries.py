"""Copies of a query of two sources of a group, which go on side by side or one after the other."""

from copy import deepcopy

import pytest

from tests.enumerators.notes.group_members import Member
from tests.enumerators.planning.test_bounded_runs import SparkWatermark
from tests.support.logs import Clock, Logs
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.notes.folder import NoteFolder

pytestmark = pytest.mark.usefixtures("own_temporary_folder")

HOUR_MS = 3_600_000


class JointQuery:
    """A query of two sources of a group, the first of which is ahead."""

    def __init__(self, clock, logs, tmp_path):
        notes = lambda: NoteFolder(LocalFolder(tmp_path, "alignment location"))  # noqa: E731
        self.members = [Member(clock, of, bounded=True, drift=HOUR_MS, notes=notes) for of in logs]
        self.spark, self.late, self.is_going_on = SparkWatermark(), [], True

    def copied(self, *, bounded=True):
        copy = object.__new__(JointQuery)
        copy.members = []
        for member in self.members:
            of = Member(member.clock, member.logs, bounded=bounded, drift=HOUR_MS, notes=member.notes)
            of.offset = member.offset
            copy.members.append(of)
        copy.spark, copy.late, copy.is_going_on = deepcopy(self.spark), [], True
        return copy

    def trigger(self):
        times = [at_ms for member in self.members for at_ms in member.plan()]
        self.late += self.spark.dropped(times, HOUR_MS + 1)
        self.spark.deliver({"all": times})
        self.is_going_on = any(member.changed for member in self.members)


def run(*queries):
    """Run queries at once to their ends."""
    for query in queries:
        for member in query.members:
            member.start()
        query.is_going_on = True
    while any(query.is_going_on for query in queries):
        for query in queries:
            if query.is_going_on:
                query.trigger()
                if not query.is_going_on:
                    for member in query.members:
                        member.stop()


@pytest.mark.parametrize("first", ["the original", "its copy"])
@pytest.mark.parametrize("stored", ["before", "at once", "never"])
def test_copies_of_a_query_of_two_sources_keep_its_rows_when_one_runs_alone_and_then_both(tmp_path, first, stored):
    clock, ahead, behind = Clock(), Logs(a=[24 * HOUR_MS]), Logs(a=[15 * HOUR_MS])
    original = JointQuery(clock, [ahead, behind], tmp_path)
    run(original)
    copy = original.copied()
    alone, other = (original, copy) if first == "the original" else (copy, original)
    if stored == "before":
        ahead.times["a"].append(24 * HOUR_MS)
        run(other)
    behind.times["a"] += [21 * HOUR_MS, 26 * HOUR_MS]
    if stored == "at once":
        run(alone, other)
    else:
        run(alone)
    run(other)
    ahead.times["a"].append(27 * HOUR_MS)
    behind.times["a"].append(27 * HOUR_MS)
    for _ in range(6):
        run(alone, other)
        clock.sleep(3600)
    assert (original.late, copy.late) == ([], [])
    for query in (original, copy):
        for member in query.members:
            unread = member.logs.times["a"][len(member.seen) :]
            assert unread[1:] == query.spark.dropped(unread, HOUR_MS + 1) == []


@pytest.mark.parametrize("first", ["the original", "its copy"])
def test_copies_keep_rows_where_a_source_that_was_quiet_has_stored_nothing_since_it_was_copied(tmp_path, first):
    clock, quiet, busy = Clock(), Logs(a=[24 * HOUR_MS]), Logs(a=[23 * HOUR_MS + 1, 24 * HOUR_MS - 1])
    original = JointQuery(clock, [quiet, busy], tmp_path)
    for _ in range(3):
        run(original)
        clock.sleep(3600)
    copy = original.copied()
    alone, other = (original, copy) if first == "the original" else (copy, original)
    busy.times["a"] += [26 * HOUR_MS, 40 * HOUR_MS]
    before = alone.members[0].offset
    run(alone)
    assert (alone.members[0].offset, len(alone.members[1].seen)) == (before, 4 if alone is original else 2)
    quiet.times["a"].append(39 * HOUR_MS)
    run(other, alone)
    assert (original.late, copy.late) == ([], [])


def test_copies_keep_rows_where_one_is_a_stream_of_which_a_planner_ended_in_order_and_another_was_killed(tmp_path):
    clock, quiet, busy = Clock(), Logs(a=[24 * HOUR_MS]), Logs(a=[23 * HOUR_MS + 1, 24 * HOUR_MS - 1])
    original = JointQuery(clock, [quiet, busy], tmp_path)
    for _ in range(3):
        run(original)
        clock.sleep(3600)
    copy = original.copied(bounded=False)
    busy.times["a"] += [26 * HOUR_MS, 40 * HOUR_MS]
    for _ in range(20):
        copy.trigger()
        clock.sleep(1)
    assert len(copy.members[1].seen) == 2
    quiet_planner, busy_planner = copy.members
    quiet_planner.stop()
    busy_planner.die()
    quiet.times["a"].append(39 * HOUR_MS)
    for _ in range(3):
        run(original)
        clock.sleep(3600)
    assert (original.late, len(original.members[1].seen)) == ([], 4)
