"""Sources that keep together through a folder.  ``tests/lives`` lives the lives of groups in any order of events."""

import threading

import pytest

from tests.enumerators.notes.group_members import LEASE_S, Member, members, rounds, strategy
from tests.support.logs import Clock, Logs, coordinator
from tidegate.alignment.plan import Progress
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def test_a_member_that_is_expected_is_waited_for_until_its_lease_would_be_over():
    clock = Clock()
    alone = Member(clock, Logs(a=[100, 200]), expected=2)
    assert rounds(clock, [alone], 5) == {0: []}
    clock.sleep(LEASE_S)
    assert rounds(clock, [alone], 5) == {0: [100, 200]}


def test_after_a_restart_those_that_the_offset_names_are_waited_for():
    clock = Clock()
    fast, slow = members(clock, [1000], [100, 300, 500])
    rounds(clock, [fast, slow], 2)
    for member in (fast, slow):
        member.run.close()
        member.start()
    assert [*fast.offset["group"]["peers"]] == [slow.offset["group"]["id"]]
    assert fast.plan() == []  # the other is not there yet
    assert slow.plan() == []  # its own note went, so a copy may have taken part meanwhile
    assert rounds(clock, [fast, slow], 2) == {0: [], 1: [300, 500]}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_member_that_looks_for_its_first_head_for_long_holds_the_others(restarted):
    clock = Clock()
    fast, slow = (Member(clock, Logs(a=times), expected=2) for times in ([1000, 1005], [100, 300, 1004]))
    rounds(clock, [fast, slow] if restarted else [fast], 2)
    peek, meanwhile = slow.logs.peek, []

    def peek_for_long(positions, horizon):
        slow.logs.peek = peek
        slow.group.renew()  # as its thread does
        meanwhile.extend([fast.plan(), fast.plan()])
        return peek(positions, horizon)

    slow.logs.peek = peek_for_long
    slow.start()
    slow.plan()
    assert meanwhile == [[], []]
    assert rounds(clock, [fast, slow], 6)[0] == [1000, 1005]


def test_a_member_that_stops_releases_the_others_at_once_and_one_that_is_killed_after_its_lease():
    clock = Clock()
    fast, stopping, killed = members(clock, [205, 1000], [100], [200])
    for member in (fast, stopping, killed):
        member.plan()
    stopping.run.close()
    killed.die()
    assert rounds(clock, [fast], 3) == {0: [205]}
    clock.sleep(LEASE_S)
    assert rounds(clock, [fast], 1) == {0: [1000]}


def test_flink_35157_and_40505_a_member_that_returns_takes_part_again():
    """The last low of a member held the group for good once the member had finished or failed."""
    clock = Clock()
    fast, slow = members(clock, [1000, 1015, 1030], [100, 1009])
    rounds(clock, [fast, slow], 1)
    slow.die()
    fast.group.renew()
    clock.sleep(LEASE_S + 1)
    assert fast.plan() == [1000]
    slow.start()
    assert slow.plan() == [100]
    assert fast.plan() == [1015]
    assert rounds(clock, [fast, slow], 2) == {0: [], 1: [1009]}


@pytest.mark.parametrize("bounded", [False, True])
def test_flink_39586_a_member_whose_last_split_goes_holds_nobody(bounded):
    """A source that was left without a split held back all others by its last watermark for good."""
    clock = Clock()
    slow, fast = members(clock, [100, 300], [1000, 1100])
    rounds(clock, [slow, fast], 1)
    if bounded:
        fast.bounded = True
        fast.stop()
        fast.start()
    assert (slow.plan(), fast.plan()) == ([100], [])
    del slow.logs.times["a"]
    clock.sleep(31)
    fast.group.renew()
    assert slow.plan() == []
    assert rounds(clock, [fast, slow], 3) == {0: [1000, 1100], 1: []}


def test_a_bounded_member_that_others_hold_never_repeats_its_offset_before_its_end():
    clock = Clock()
    fast, slow = members(clock, [1000], [100], bounded=True)
    for member in (fast, slow):
        member.plan()
    for _ in range(3):
        assert fast.plan() == []
        assert fast.changed
    assert fast.offset["waits"] == 2  # the first only named the other
    assert (slow.plan(), fast.plan()) == ([100], [])
    assert (slow.plan(), slow.changed) == ([], False)
    for _ in range(2):  # the first notes that the other has given a sign
        assert fast.plan() == []
    assert not fast.changed


def test_a_bounded_member_plans_again_if_the_one_that_holds_it_reads_on_while_it_plans():
    """Otherwise it would take a note of after its plan for the reason of its plan, and end with unread rows."""
    clock = Clock()
    ahead, slow = members(clock, [300], [100, 200, 295], bounded=True)
    rounds(clock, [ahead, slow], 2)
    plan_of_group, meanwhile = ahead.group.bound, []

    def while_the_other_reads_to_its_end(*about):
        ahead.group.bound = plan_of_group
        bound = plan_of_group(*about)
        while not meanwhile or slow.changed:
            meanwhile.extend(slow.plan())
        clock.sleep(1)  # the notes are read again
        return bound

    ahead.group.bound = while_the_other_reads_to_its_end
    assert ahead.plan() == [300]
    assert slow.seen == [100, 200, 295]


def run(query):
    # Spark asks every source of a query, and ends when no offset has changed.
    going_on = True
    while going_on:
        for source in query:
            source.plan()
        going_on = any(source.changed for source in query)


def test_a_bounded_member_does_not_end_by_notes_that_it_read_a_moment_ago(tmp_path):
    """Both are sources of one query, which asks the first one again because the second one has read on."""
    clock = Clock()
    notes = lambda: NoteFolder(LocalFolder(tmp_path, "alignment location"), 1.0)  # noqa: E731
    ahead, behind = members(clock, [100], [100], bounded=True, notes=notes)
    for times_of_run in ([], [], [], [130, 125]):  # the run before has stored nothing
        for member, at_ms in zip((ahead, behind), times_of_run, strict=False):
            member.logs.times["a"].append(at_ms)
        run([ahead, behind])
        for member in (ahead, behind):
            member.stop()
            member.start()
        clock.sleep(1)
    assert (ahead.seen, behind.seen) == ([100, 130], [100, 125])


def test_a_group_that_is_set_on_a_checkpoint_without_one_is_joined():
    clock, logs = Clock(), Logs(a=[0, 100, 200])
    alone = coordinator(logs, clock, watermarks=strategy())
    member = Member(clock, logs, offset=alone.latest_offset(INITIAL_OFFSET))
    assert rounds(clock, [member], 4) == {0: [100, 200]}


@pytest.mark.parametrize("bounded", [False, True])
def test_a_member_whose_next_record_is_late_keeps_within_the_drift_with_others_there_or_not(bounded):
    clock, logs = Clock(), Logs(a=[1000], b=[7, *range(1001, 50_000, 1000)])
    offset = {**INITIAL_OFFSET, "source": "memory", "positions": {"a": 1, "b": 0}, "watermark": 999, "idle": ["a"]}
    late = Member(clock, logs, expected=2, offset=offset, bounded=bounded)
    for _ in range(2):  # the other is not there yet
        assert late.plan() == []
    other = Member(clock, Logs(a=[500, 1005, 9000]), expected=2, bounded=bounded)
    found = rounds(clock, [late, other], 4)
    assert (found[0][:2], found[1]) == ([7, 1001], [500, 1005])


def test_after_a_restart_a_split_that_catches_up_holds_the_others_before_the_first_plan():
    clock, logs = Clock(), Logs(a=[1000], b=[7, 20, 40])
    offset = {**INITIAL_OFFSET, "source": "memory", "positions": {"a": 1}, "bound": 1001, "watermark": 999}
    behind = Member(clock, logs, offset=offset, late_splits="catch-up")
    other = Member(clock, Logs(a=[500]))
    assert rounds(clock, [behind, other], 1) == {0: [7], 1: []}
    behind.die()
    behind.start()
    behind.run.tasks(behind.offset, behind.offset)
    assert (other.plan(), behind.plan(), other.plan()) == ([], [20], [])
    assert rounds(clock, [behind, other], 3) == {0: [40], 1: [500]}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_runs_from_copies_of_a_checkpoint_one_takes_another_name_and_both_hold_the_others(names):
    clock = Clock()
    other, slow = members(clock, [1000, 1400], [100, 300, 1005])
    rounds(clock, [other, slow], 2)
    copied = Member(clock, Logs(a=[100, 1390]), offset=slow.offset)
    slow.group._run, copied.group._run = names  # one of them decides who keeps the name
    slow.group._after = slow.group._run  # it has stored an offset since it was copied
    for _ in range(6):
        slow.group.renew()  # it does not go on
        assert copied.plan() == []
        assert other.plan() == []
        clock.sleep(0.2)
    assert rounds(clock, [slow, copied, other], 6) == {0: [300, 1005], 1: [], 2: [1000]}
    assert len({member.offset["group"]["id"] for member in (slow, copied, other)}) == 3


@pytest.mark.parametrize(("progress", "low_ms"), [(Progress({}, bound_ms=90), 80), (Progress({}), 0)])
def test_a_batch_that_is_replayed_holds_the_others_at_what_may_be_unread(progress, low_ms):
    member = Member(Clock(), Logs())
    member.group.stored({"id": "x"}, progress, bounded=False)
    assert dict(member.notes().notes())["x"]["member"]["low_ms"] == low_ms


def test_a_replayed_batch_with_a_late_split_holds_the_others_as_that_split_does_once_it_is_read():
    clock = Clock()
    ahead, behind = members(clock, [], [100])
    rounds(clock, [ahead, behind], 3)
    clock.sleep(40)
    behind.logs.times.update(b=[50, 112], c=[118])
    ahead.logs.times["a"] += [125]
    for member in (ahead, behind):
        member.group.renew()
    behind.make_plan()
    behind.store()
    behind.start()  # it was killed before it read the batch
    assert sorted(behind.read_batch()) == [50, 112, 118]
    assert ahead.plan() == []
    behind.logs.times["b"] += [114]
    assert rounds(clock, [behind, ahead], 2) == {0: [114], 1: []}


class RealTime:
    clocks = Clocks()


def test_two_bounded_queries_of_two_sources_each_do_not_wait_for_each_other_for_ever():
    """Each query asks its sources one after the other, so a waiting source keeps the other from going on."""
    times = [range(0, 60, 3), range(1, 60, 3)]
    queries = [members(RealTime(), *pair, bounded=True) for pair in (times, times[::-1])]

    threads = [threading.Thread(target=run, args=(query,), daemon=True) for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert [len(source.seen) for query in queries for source in query] == [20, 20, 20, 20]
    for query in queries:
        for source in query:
            source.run.close()
