"""Sources that keep together through a folder, in any order of events."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.enumerators.logs import Clock, Logs, coordinator, read
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.checkpoint import INITIAL_OFFSET
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.coordinator import CoordinatorSettings, SourceCoordinator
from tidegate.enumerators.group_folder import GroupFolder
from tidegate.enumerators.state_folder import StateFolder, applications
from tidegate.errors import ConnectorError, OptionError

DRIFT = 10
LEASE_S = 60.0


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def strategy(drift=DRIFT, idle_s=5):
    aligned = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(milliseconds=drift), group="join")
    return aligned.with_idleness(timedelta(seconds=idle_s))


class Member:
    """A source of a group, planned by hand."""

    def __init__(
        self,
        clock,
        logs,
        *,
        bounded=False,
        expected=None,
        priority=0,
        drift=DRIFT,
        offset=INITIAL_OFFSET,
        application="app",
    ):
        self.clock, self.logs, self.bounded, self.offset, self.application = clock, logs, bounded, offset, application
        self.expected, self.priority, self.drift = expected, priority, drift
        self.seen = []
        self.planned = self.before = None  # an offset that Spark has not stored yet; of a batch that it has not read
        self.start()

    def start(self):
        """Begin a run, from the last offset."""
        self.group = GroupFolder(
            StateFolder.of_application(self.application).within("groups", "join"),
            self.drift,
            self.priority,
            self.expected,
            lease_s=LEASE_S,
            renewed_by_thread=False,
            clocks=self.clock.clocks,
        )
        self.run = coordinator(
            self.logs, self.clock, group=self.group, watermarks=strategy(self.drift), fail_on_data_loss=False
        )
        if self.bounded:
            self.run.bound_run()
        self.alive, self.joined = True, False

    def plan(self):
        """Take a batch; return the event times that it reads."""
        self.make_plan()
        self.store()
        return self.read_batch()

    def make_plan(self):
        """Plan a batch, which is forgotten by who dies now."""
        self.joined = True
        end = self.run.latest_offset(self.offset)
        self.changed = end != self.offset
        if self.changed:
            self.planned = end

    def store(self):
        """Store the offset: from now on its batch is read, be it by another run."""
        if self.planned is not None:
            self.before, self.offset, self.planned = self.offset, self.planned, None

    def read_batch(self):
        """Read what was stored last, which tells the group what is left; return its event times."""
        if self.before is None:
            return []
        self.joined = True
        batch = read(self.run, self.before, self.offset)
        self.before = None
        self.seen += batch
        return [self.logs.times[split][position] for split, position in batch]

    def limit(self, split):
        """Return where a split ends, as far as it is there."""
        stop, last = self.logs.ends.get(split), len(self.logs.times[split])
        return last if stop is None else min(stop, last)

    def head(self, offset):
        """Return the lowest unread event time after an offset."""
        positions = offset.get("positions", {}).items()
        return min((self.logs.times[s][p] for s, p in positions if p < self.limit(s)), default=float("inf"))

    def die(self):
        """Go as after SIGKILL: the note stays."""
        self.alive, self.planned = False, None

    def stop(self):
        self.run.close()
        self.die()


def members(clock, *times, **options):
    return [Member(clock, Logs(a=list(each)), **options) for each in times]


def rounds(clock, some, count):
    """Let all plan in turns; return what each batch read, by member."""
    found = {i: [] for i in range(len(some))}
    for _ in range(count):
        for i, member in enumerate(some):
            found[i] += member.plan()
        clock.sleep(0.2)
    return found


def test_the_first_batch_reads_nothing_and_then_both_keep_within_the_drift():
    clock = Clock()
    fast, slow = members(clock, [1000, 1005, 2000], [100, 1004, 1999])
    assert (fast.plan(), slow.plan()) == ([], [])
    assert fast.plan() == []
    assert slow.plan() == [100]
    assert fast.plan() == [1000, 1005]
    assert slow.plan() == [1004]
    assert rounds(clock, [fast, slow], 3) == {0: [2000], 1: [1999]}


def test_a_member_that_is_expected_is_waited_for_until_its_lease_would_be_over():
    clock = Clock()
    alone = Member(clock, Logs(a=[100, 200]), expected=2)
    assert rounds(clock, [alone], 5) == {0: []}
    clock.sleep(LEASE_S)
    assert rounds(clock, [alone], 5) == {0: [100, 200]}


def test_nobody_reads_before_all_that_are_expected_are_there():
    clock = Clock()
    early = Member(clock, Logs(a=[1000]), expected=2)
    assert rounds(clock, [early], 3) == {0: []}
    late = Member(clock, Logs(a=[100]), expected=2)
    assert rounds(clock, [early, late], 1) == {0: [], 1: []}
    assert early.plan() == []
    assert late.plan() == [100]


def test_after_a_restart_those_that_the_offset_names_are_waited_for():
    clock = Clock()
    fast, slow = members(clock, [1000], [100, 300, 500])
    rounds(clock, [fast, slow], 2)
    for member in (fast, slow):
        member.run.close()
        member.start()
    assert fast.offset["group"]["peers"] == [slow.offset["group"]["id"]]
    assert fast.plan() == []  # the other is not there yet
    assert slow.plan() == [300]
    assert rounds(clock, [fast, slow], 2) == {0: [], 1: [500]}


def test_a_member_that_stops_releases_the_others_at_once_and_one_that_is_killed_after_its_lease():
    clock = Clock()
    fast, stopping, killed = members(clock, [1000], [100], [200])
    for member in (fast, stopping, killed):
        member.plan()
    stopping.run.close()
    killed.die()
    assert rounds(clock, [fast], 3) == {0: []}
    clock.sleep(LEASE_S)
    assert rounds(clock, [fast], 1) == {0: [1000]}


def test_flink_35157_and_40505_a_member_that_returns_takes_part_again():
    """What a member said last held the group for good once it had finished or failed."""
    clock = Clock()
    fast, slow = members(clock, [1000, 1015, 1030], [100, 1009])
    rounds(clock, [fast, slow], 1)
    slow.die()
    clock.sleep(LEASE_S + 1)
    assert fast.plan() == [1000]
    slow.start()
    assert slow.plan() == [100]
    assert fast.plan() == [1015]
    assert rounds(clock, [fast, slow], 2) == {0: [], 1: [1009]}


@pytest.mark.parametrize("bounded", [False, True])
def test_flink_32414_a_member_without_a_split_holds_nobody(bounded):
    """A source that had no split yet held all that were aligned with it."""
    clock = Clock()
    busy, empty = Member(clock, Logs(a=[1000, 2000]), expected=2, bounded=bounded), Member(clock, Logs(), expected=2)
    rounds(clock, [busy, empty], 4)
    assert [position for _, position in busy.seen] == [0, 1]
    empty.logs.times["b"] = [100]
    busy.logs.times["a"] += [3000]
    clock.sleep(31)
    busy.group.renew()
    assert empty.plan() == [100]


@pytest.mark.parametrize("bounded", [False, True])
def test_flink_39586_a_member_whose_last_split_goes_holds_nobody(bounded):
    """A source that was left without a split held all others by its last watermark for good."""
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


def test_an_idle_member_holds_nobody():
    clock = Clock()
    fast, idle = members(clock, [1000, 2000], [100])
    assert rounds(clock, [fast, idle], 3) == {0: [], 1: [100]}
    clock.sleep(6)
    idle.plan()
    assert rounds(clock, [fast, idle], 3)[0] == [1000, 2000]


def test_of_two_drifts_the_later_is_refused():
    clock = Clock()
    first = Member(clock, Logs(a=[1, 2]))
    first.plan()
    clock.sleep(1)
    with pytest.raises(OptionError, match=r"^maxDrift is 11 ms, but another source of the alignmentGroup has 10 ms"):
        Member(clock, Logs(a=[1]), drift=11).plan()


def test_a_bounded_member_that_others_hold_never_repeats_its_offset_before_its_end():
    clock = Clock()
    fast, slow = members(clock, [1000], [100], bounded=True)
    for member in (fast, slow):
        member.plan()
    for _ in range(3):
        assert fast.plan() == []
        assert fast.changed
    assert fast.offset["waits"] == 2  # the first only named the other
    slow.plan()
    assert fast.plan() == [1000]
    assert "waits" not in fast.offset
    fast.plan()
    assert not fast.changed


def test_a_group_that_is_set_on_a_checkpoint_without_one_is_joined():
    clock, logs = Clock(), Logs(a=[0, 100, 200])
    alone = coordinator(logs, clock, watermarks=strategy())
    member = Member(clock, logs, offset=alone.latest_offset(INITIAL_OFFSET))
    assert rounds(clock, [member], 4) == {0: [100, 200]}


def test_a_batch_that_is_replayed_for_long_holds_the_others_and_hears_them_after():
    clock = Clock()
    fast, slow = members(clock, [1000, 2000], [100, 300, 500])
    rounds(clock, [fast, slow], 1)
    for member in (fast, slow):
        member.die()
        member.start()
    before, slow_before = fast.offset, slow.offset
    fast.run.tasks(before, before)
    slow.run.tasks(slow_before, slow_before)
    clock.sleep(LEASE_S / 2)
    fast.group.renew()
    slow.group.renew()
    clock.sleep(LEASE_S / 2 + 1)
    assert fast.plan() == []
    assert slow.plan() == [100]


class Contender:
    """A member of a query, planned in its query's thread."""

    def __init__(self, logs):
        real = Clocks()
        folder = StateFolder.of_application("app").within("groups", "join")
        self.group = GroupFolder(folder, DRIFT, lease_s=30.0, clocks=real)
        self.run = SourceCoordinator(
            "memory", lambda _: logs, CoordinatorSettings(strategy()), 2, group=self.group, clocks=real
        )
        self.run.bound_run()
        self.offset, self.seen = INITIAL_OFFSET, []

    def plan(self):
        end = self.run.latest_offset(self.offset)
        changed, batch = end != self.offset, read(self.run, self.offset, end)
        self.offset, self.seen = end, self.seen + batch
        return changed


def test_two_bounded_queries_of_two_sources_each_do_not_wait_for_each_other_for_ever():
    """Each query asks its sources one after the other, so one that waits keeps the other from going on."""
    times = [range(0, 60, 3), range(1, 60, 3)]
    queries = [[Contender(Logs(a=list(each))) for each in pair] for pair in (times, times[::-1])]

    def run(query):
        # Spark asks every source of a query, and ends when no offset has changed.
        while True in [source.plan() for source in query]:
            pass

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
    folder = StateFolder.of_application("app")
    folder.write("x", {"low": 1})
    (root,) = tmp_path.iterdir()
    yesterday = time.time() - 25 * 3600
    for path in root.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere")
    assert (folder.read("x"), list(folder.notes()), applications()) == (None, [], [])
    folder.remove("x")
    assert (tmp_path / "elsewhere" / "app" / "x.json").exists()


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    (tmp_path / f"tidegate-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(ConnectorError, match="belongs to another user, or others may enter it"):
        Member(Clock(), Logs(a=[1])).plan()


def test_what_a_dead_application_left_behind_is_dropped_after_a_day(tmp_path):
    folder = StateFolder.of_application("app-1").within("groups", "join")
    folder.write("x", {"low": 1})
    assert [each.path.name for each in applications()] == ["app-1"]
    yesterday = time.time() - 25 * 3600
    for path in tmp_path.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    assert applications() == []


HOLDER = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from tidegate.enumerators.group_folder import GroupFolder
from tidegate.enumerators.state_folder import StateFolder
group = GroupFolder(StateFolder.of_application("app").within("groups", "join"), 10, lease_s=float(sys.argv[2]))
group.join({"id": "holder"})
group.tell(100)
print("told", flush=True)
time.sleep(600)
"""


def test_the_lease_of_a_process_is_kept_by_a_thread_and_ends_with_a_kill(tmp_path):
    lease_s = 1.0
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path), str(lease_s)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"told\n"
        group = GroupFolder(StateFolder.of_application("app").within("groups", "join"), 10, lease_s=lease_s)
        group.join({"id": "me"})
        until = time.monotonic() + 2 * lease_s
        while time.monotonic() < until:
            assert group.bound(500, None).held_by == "holder"
        process.kill()
        while group.bound(500, None).held_by is not None:
            assert time.monotonic() < until + 3 * lease_s
        group.leave()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Group:
    """Some members, and an oracle that knows what the others can know of each."""

    def __init__(self, clock, some):
        self.clock, self.members = clock, some
        self.told = {}  # the lowest unread event time that each has told last, if that holds the others
        self.leaves = {}  # the same after the batch that is planned or stored, as its plan saw it
        self.renewed_at = {}

    def step(self, member):
        """Go on by one step of Spark's, so that anything can come between two; tell whether anything was read."""
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
        """Do what the thread in each living planner does."""
        for member in self.members:
            if member.alive and member.joined:
                member.group.renew()
                self.renewed_at[member] = self.clock.now

    def append(self, member, amount):
        times = member.logs.times[min(member.logs.times)]
        times.append(max([*times, amount]) + amount // 10)

    def pass_by(self, seconds):
        """Let time pass; when it is more than a lease, it ends those of the dead."""
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
        """Let the dead return, and all read what there is; the living go on, or else a deadlock would end here."""
        for member in self.members:
            self.come_back(member)
        for _ in range(4):
            for member in self.members:
                self.step(member)
        self.pass_by(LEASE_S + 1)  # some of ``expected`` may never come
        quiet_rounds, rounds = 0, 0
        while quiet_rounds < 12:  # long enough for idle splits to be told from quiet ones
            for member in self.members:
                if self.unread(member):
                    self.come_back(member)  # a bounded run that ended before the last records came
            went_on = [self.step(member) for member in self.members]
            self.pass_by(2)
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
    priorities=st.lists(st.integers(0, 1), min_size=3, max_size=3),
    expected=st.sampled_from([None, None, 2, 3, 4]),
    steps=STEPS,
)
def test_whatever_happens_nobody_passes_the_bound_and_everything_is_read(logs, bounded, priorities, expected, steps):
    clock, some, application = Clock(), [], str(uuid.uuid4())  # no note of another example is in its folder
    for each, ends, priority in zip(logs, bounded, priorities, strict=False):
        source = Logs(**{f"s{i}": times for i, (times, _) in enumerate(each)})
        source.ends = {f"s{i}": stop for i, (_, stop) in enumerate(each)}
        some.append(Member(clock, source, bounded=ends, priority=priority, expected=expected, application=application))
    group = Group(clock, some)
    for step in steps:
        group.happen(*step)
    group.settle()
    for member in some:
        every = sorted((s, p) for s in member.logs.times for p in range(member.limit(s)))
        assert sorted(member.seen) == every, "not exactly once"
        member.run.close()
