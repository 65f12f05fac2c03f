"""Sources that keep together through a folder, in any order of events."""

import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.enumerators.notes.group_members import DRIFT, LEASE_S, Member
from tests.support.logs import Clock, Logs
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


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
