"""Sources that keep together through a folder, in any order of events."""

import threading
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.enumerators.notes.group_members import DRIFT, LEASE_S, Member, members, rounds, strategy
from tests.support.logs import Clock, Logs, coordinator
from tidegate.enumerators.clocks import Clocks
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
    assert slow.plan() == [300]
    assert rounds(clock, [fast, slow], 2) == {0: [], 1: [500]}


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
    slow.group.stored()  # since it was copied
    for _ in range(6):
        slow.group.renew()  # it does not go on
        assert copied.plan() == []
        assert other.plan() == []
        clock.sleep(0.2)
    assert rounds(clock, [slow, copied, other], 6) == {0: [300, 1005], 1: [], 2: [1000]}
    assert len({member.offset["group"]["id"] for member in (slow, copied, other)}) == 3


class RealTime:
    clocks = Clocks()


def test_two_bounded_queries_of_two_sources_each_do_not_wait_for_each_other_for_ever():
    """Each query asks its sources one after the other, so a waiting source keeps the other from going on."""
    times = [range(0, 60, 3), range(1, 60, 3)]
    queries = [members(RealTime(), *pair, bounded=True) for pair in (times, times[::-1])]

    def run(query):
        # Spark asks every source of a query, and ends when no offset has changed.
        going_on = True
        while going_on:
            for source in query:
                source.plan()
            going_on = any(source.changed for source in query)

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


class Group:
    """Some members, and an oracle that knows what other members can know of each member."""

    def __init__(self, clock, some):
        self.clock, self.members = clock, some
        self.told = {}  # the lowest unread event time that each has reported last, if it holds back the others
        self.leaves = {}  # the same after the planned or stored batch, as its plan saw it
        self.renewed_at = {}

    def step(self, member):
        """Go on by one of Spark's steps, because anything may happen between two; return whether anything was read."""
        if not member.alive:
            return False
        self.renew()
        if member.before is not None:
            batch = member.read_batch()
            self.told[member] = self.leaves.pop(member, member.head(member.offset))
            return bool(batch)
        if member.planned is not None:
            member.store()
            return True
        self.plan(member)
        return False

    def plan(self, member):
        start = member.offset
        self.leaves.pop(member, None)
        member.make_plan()
        end = member.planned or start
        self.told[member] = member.head(end if start == INITIAL_OFFSET else start)
        if member.changed:
            self.leaves[member] = member.head(end)
        elif member.bounded:
            self.stop(member)
        before = {**end.get("starts", {}), **start.get("positions", {})}
        batch = [t for s, p in end["positions"].items() for t in member.logs.times[s][before[s] : p]]
        others = [low for other, low in self.told.items() if other is not member and self.is_heard(other)]
        assert all(t < low + DRIFT for t in batch for low in others), "a row past the bound is planned"

    def is_heard(self, member):
        return self.clock.now - self.renewed_at.get(member, float("-inf")) <= LEASE_S

    def renew(self):
        """Do the work of the thread in each living planner."""
        for member in self.members:
            if member.alive and member.joined:
                member.group.renew()
                self.renewed_at[member] = self.clock.now

    def append(self, member, amount):
        times = member.logs.times[min(member.logs.times)]
        times.append(max([*times, amount]) + amount // 10)

    def pass_by(self, seconds):
        """Let time pass; if it is longer than a lease, the leases of dead members end."""
        while seconds > 0:
            self.clock.sleep(min(seconds, LEASE_S / 4))
            self.renew()
            seconds -= LEASE_S / 4

    def stop(self, member):
        if member.alive:
            member.stop()
            self.told.pop(member, None)

    def come_back(self, member):
        if not member.alive:
            member.start()

    def happen(self, what, which, amount):
        member = self.members[which % len(self.members)]
        {
            "step": lambda: self.step(member),
            "append": lambda: self.append(member, amount),
            "pass": lambda: self.pass_by(amount / 10),
            "lapse": lambda: self.pass_by(LEASE_S + 1),
            "die": member.die,
            "stop": lambda: self.stop(member),
            "return": lambda: self.come_back(member),
        }[what]()

    def unread(self, member):
        every = {(s, p) for s in member.logs.times for p in range(member.limit(s))}
        return every - set(member.seen)

    def settle(self):
        """Let the dead return, and all members read everything; only the end of the test would stop a deadlock."""
        for member in self.members:
            self.come_back(member)
        for _ in range(4):
            for member in self.members:
                self.step(member)
        self.pass_by(LEASE_S + 1)  # some of ``expected`` may never come
        quiet_rounds, rounds = 0, 0
        while quiet_rounds < 12:  # long enough to tell idle splits from quiet ones, and members that no longer run
            for member in self.members:
                if self.unread(member):
                    self.come_back(member)  # a bounded run that ended before the last records came
            went_on = [self.step(member) for member in self.members]
            self.pass_by(LEASE_S / 4)
            quiet_rounds = 0 if any(went_on) else quiet_rounds + 1
            rounds += 1
            assert rounds < 1000, "no end"


WHATS = st.sampled_from([*["step"] * 6, "append", "pass", "lapse", "die", "return", "stop"])
STEPS = st.lists(st.tuples(WHATS, st.integers(0, 2), st.integers(0, 60)), max_size=60)
TIMES = st.lists(st.integers(0, 120), max_size=8).map(sorted)
ENDS = st.sampled_from([None, None, None, 0, 3])


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    logs=st.lists(st.lists(st.tuples(TIMES, ENDS), min_size=1, max_size=2), min_size=2, max_size=3),
    bounded=st.lists(st.booleans(), min_size=3, max_size=3),
    expected=st.sampled_from([None, None, 2, 3, 4]),
    steps=STEPS,
)
def test_whatever_happens_nobody_passes_the_bound_and_everything_is_read(logs, bounded, expected, steps):
    clock, some, application = Clock(), [], str(uuid.uuid4())  # no note of another example is in its folder
    for splits, ends in zip(logs, bounded, strict=False):
        source = Logs(**{f"s{i}": times for i, (times, _) in enumerate(splits)})
        source.ends = {f"s{i}": stop for i, (_, stop) in enumerate(splits)}
        some.append(Member(clock, source, bounded=ends, expected=expected, application=application))
    group = Group(clock, some)
    for step in steps:
        group.happen(*step)
    group.settle()
    for member in some:
        every = sorted((s, p) for s in member.logs.times for p in range(member.limit(s)))
        assert sorted(member.seen) == every, "not exactly once"
        member.run.close()
