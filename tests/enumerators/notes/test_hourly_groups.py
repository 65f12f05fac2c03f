"""Members of a group that run every hour to the ends that they find, in the ways in which people schedule them."""

import pytest

from tests.enumerators.notes.group_members import LEASE_S, Member, MemberOfObjects
from tests.enumerators.planning.test_bounded_runs import SparkWatermark
from tests.support.logs import Clock, Logs
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder

pytestmark = pytest.mark.usefixtures("own_temporary_folder")

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
TRAILS_BY = 3 * HOUR_MS
EPOCH_MS = 10 * HOUR_MS


class Hourly:
    """A group of which each member reads the rows of a topic; producers write between the runs.

    location: the notes are in a folder that outlives the applications; False: each hour is a new application.
    bucket: the rows of the last member are in its objects, three an hour.
    period_ms: these rows have the time of the end of their period, as the path of an object says it.
    """

    def __init__(self, tmp_path, *, location=True, trailing=(0, TRAILS_BY), lease_s=LEASE_S, bucket=None, period_ms=1):
        self.clock, self.trailing, self.hour, self.running = Clock(), [*trailing], 0, []
        folder = LocalFolder(tmp_path / "group", "alignment location")
        application = lambda: application_notes(f"app-{self.hour}").within("groups", "hourly")  # noqa: E731
        notes = (lambda: NoteFolder(folder)) if location else application
        options = {"bounded": True, "drift": HOUR_MS, "notes": notes, "lease_s": lease_s}
        self.members = [Member(self.clock, Logs(a=[]), **options) for _ in self.trailing]
        self.bucket, self.period_ms = bucket, period_ms
        if bucket is not None:
            self.members[-1] = MemberOfObjects(self.clock, bucket, tmp_path / "state", **options)
        self.spark, self.late, self.waited_s, self.begun = SparkWatermark(), [], 0.0, set()

    def write(self, *members):
        """Write an hour of rows, one a minute, to the topics of all members or of some."""
        for member in members or self.members:
            trails_by = self.trailing[self.members.index(member)]
            begin = EPOCH_MS + self.hour * HOUR_MS - trails_by
            times = range(begin, begin + HOUR_MS, MINUTE_MS)
            if member.logs is None:
                self.upload(times)
            else:
                member.logs.times["a"] += times

    def upload(self, times):
        """Upload rows in three objects, of which the last has the earliest."""
        ends = [at_ms - at_ms % self.period_ms + self.period_ms - 1 for at_ms in times]
        for part, first in enumerate((40, 20, 0)):
            self.bucket.put_rows(f"{self.hour}-{part}.json", enumerate(ends[first : first + 20]))

    def pass_an_hour(self):
        self.hour += 1
        self.clock.sleep(3600 - self.waited_s)
        self.waited_s = 0.0

    def trigger(self, *members):
        """Let Spark ask members for a batch, and read it; return whether there was one."""
        before = self.clock.now
        for member in members:
            if member not in self.running:
                if member in self.begun:
                    member.start()
                self.begun.add(member)
                self.running.append(member)
            self.take(member.plan())
        for member in self.running:
            member.group.renew()
        self.clock.sleep(1.0)
        self.waited_s += self.clock.now - before
        return any(member.changed for member in members)

    def take(self, times):
        self.late += self.spark.dropped(times, HOUR_MS + MINUTE_MS)
        self.spark.deliver({"all": times})

    def end(self, *members):
        for member in members:
            member.stop()
            self.running.remove(member)

    def unread(self, number):
        member = self.members[number]
        return len(member.logs.times["a"]) - len(member.seen)


def in_one_query(hourly, members):
    while hourly.trigger(*members):
        pass
    hourly.end(*members)


def one_after_the_other(hourly, members):
    # The first one of all does not know yet that another will come, if alignmentMembers does not say so.
    for member in members if hourly.hour else hourly.members[::-1]:
        in_one_query(hourly, [member])


def at_once(hourly, members):
    going_on = [*members]
    while going_on:
        for member in [*going_on]:
            if not hourly.trigger(member):
                hourly.end(member)
                going_on.remove(member)


def both_ways(schedule):
    def other_way_round(hourly, members):
        schedule(hourly, members[::-1])

    other_way_round.__name__ = f"{schedule.__name__}_the_slow_one_first"
    return [schedule, other_way_round]


SCHEDULES = [way for schedule in (in_one_query, one_after_the_other, at_once) for way in both_ways(schedule)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_row_of_a_member_that_trails_by_more_than_the_drift_is_late_and_no_run_waits(tmp_path, schedule):
    hourly = Hourly(tmp_path)
    for hour in range(12):
        hourly.write()
        schedule(hourly, hourly.members)
        assert hour == 1 or hourly.waited_s < LEASE_S / 2  # after the first hour, one may run in another order
        hourly.pass_an_hour()
    assert hourly.late == []
    left = 60 * (TRAILS_BY + HOUR_MS) // HOUR_MS  # of the one that is ahead, what others may be behind of
    assert hourly.unread(0) <= left + 60 * 2 * (schedule is not SCHEDULES[0])
    assert hourly.unread(1) <= 60


@pytest.mark.parametrize("schedule", [in_one_query, at_once])
def test_the_same_where_each_hour_is_a_new_application_without_a_location(tmp_path, schedule):
    hourly = Hourly(tmp_path, location=False)
    for _ in range(8):
        hourly.write()
        schedule(hourly, hourly.members)
        assert hourly.waited_s < LEASE_S / 2
        hourly.pass_an_hour()
    assert (hourly.late, hourly.unread(1)) == ([], 0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_topic_that_gets_no_more_rows_frees_the_others_one_run_later(tmp_path, schedule):
    hourly, unread = Hourly(tmp_path), []
    for hour in range(10):
        hourly.write(*hourly.members[: 1 if hour >= 5 else 2])
        schedule(hourly, hourly.members)
        unread.append(hourly.unread(0))
        hourly.pass_an_hour()
    assert unread[4] >= 120
    assert unread[6:] == [0, 0, 0, 0]
    assert hourly.late == []


@pytest.mark.parametrize("outage_s", [0, 3 * 86_400])
@pytest.mark.parametrize("location", [True, False])
def test_a_member_that_is_no_longer_scheduled_frees_the_others_one_run_later(tmp_path, location, outage_s):
    hourly, unread, waited_s = Hourly(tmp_path, location=location), [], []
    for hour in range(10):
        hourly.clock.sleep(outage_s * (hour == 3))
        hourly.write()
        in_one_query(hourly, hourly.members[: 1 if hour >= 5 else 2])
        unread.append(hourly.unread(0))
        waited_s.append(hourly.waited_s)
        hourly.pass_an_hour()
    assert unread[5] >= 180
    assert unread[6:] == [0, 0, 0, 0]
    assert LEASE_S < waited_s[5] < 3 * LEASE_S  # it may come
    assert max(waited_s[6:]) < LEASE_S / 2


@pytest.mark.parametrize(("quick_hour", "repeats"), [(0, 1), (3, 8)])
def test_a_member_that_ran_in_quick_succession_and_is_retired_frees_the_others_no_later(tmp_path, quick_hour, repeats):
    hourly, unread = Hourly(tmp_path), []
    for hour in range(8):
        hourly.write()
        members = hourly.members[: 1 if hour > quick_hour else 2]
        for _ in range(1 + repeats * (hour == quick_hour)):
            in_one_query(hourly, members)
        unread.append(hourly.unread(0))
        hourly.pass_an_hour()
    assert unread[quick_hour + 1] >= 120
    assert unread[quick_hour + 2 :] == [0] * (6 - quick_hour)
    assert hourly.late == []


def test_a_member_that_is_scheduled_again_is_aligned_again(tmp_path):
    hourly = Hourly(tmp_path)
    for hour in range(16):
        hourly.write()
        in_one_query(hourly, hourly.members[: 1 if 4 <= hour < 8 else 2])
        hourly.pass_an_hour()
    assert hourly.unread(1) == 0
    assert hourly.unread(0) >= 120
    assert hourly.late  # while it was away, the other was free


def test_a_lease_that_covers_the_schedule_of_a_member_holds_those_that_run_more_often(tmp_path):
    hourly = Hourly(tmp_path, lease_s=2.5 * 3600)
    ahead, behind = hourly.members
    for hour in range(12):
        hourly.write()
        one_after_the_other(hourly, [ahead] if hour % 2 else [ahead, behind])
        assert hourly.waited_s <= 3 * LEASE_S
        hourly.pass_an_hour()
    assert hourly.late == []


@pytest.mark.parametrize(("after_s", "clock_s"), [(0, 0), (600, 0), (600, 7200), (600, -7200)])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_that_is_repeated_within_the_hour_takes_nobody_for_retired(tmp_path, schedule, after_s, clock_s):
    hourly = Hourly(tmp_path)
    for hour in range(10):
        hourly.clock.adjusted_s = clock_s if hour == 4 else 0  # its error
        hourly.write()
        schedule(hourly, hourly.members)
        if hour in {4, 5, 7}:
            hourly.clock.sleep(after_s)
            hourly.waited_s += after_s
            for _ in range(2 if hour == 7 else 1):
                in_one_query(hourly, hourly.members[:1])
        hourly.pass_an_hour()
    assert hourly.late == []


@pytest.mark.parametrize("swapped", [2, 5])
def test_the_order_of_two_jobs_may_change_from_hour_to_hour(tmp_path, swapped):
    hourly = Hourly(tmp_path)
    for hour in range(8):
        hourly.write()
        one_after_the_other(hourly, hourly.members[:: -1 if hour == swapped else 1])
        hourly.pass_an_hour()
    assert hourly.late == []


def test_a_copy_of_a_checkpoint_that_runs_between_the_runs_of_the_original_is_a_member_of_its_own(tmp_path, caplog):
    hourly = Hourly(tmp_path)
    for hour in range(12):
        if hour == 4:  # a copy, of which the topic is ahead
            original = hourly.members[1]
            copied = Member(hourly.clock, Logs(a=[*original.logs.times["a"]]), bounded=True, drift=HOUR_MS)
            copied.offset, copied.notes = original.offset, original.notes
            hourly.members.append(copied)
            hourly.begun.add(copied)
            hourly.trailing.append(0)
        hourly.write()
        one_after_the_other(hourly, hourly.members)
        hourly.pass_an_hour()
    assert len({member.offset["group"]["id"] for member in hourly.members}) == 3
    assert len([record for record in caplog.records if "a copy of the other's" in record.getMessage()]) == 1
    assert hourly.unread(0) >= 120  # it is held by the slower one


def test_a_run_that_stored_nothing_and_one_that_was_killed_go_on_as_the_same_member(tmp_path, caplog):
    hourly = Hourly(tmp_path)
    ids = set()
    for hour in range(8):
        if hour in (0, 1, 5):
            hourly.write()
        if hour in (2, 6):
            for member in hourly.members:
                member.start()
                member.make_plan()
                member.die()
        in_one_query(hourly, hourly.members)
        hourly.pass_an_hour()
        ids |= {member.offset["group"]["id"] for member in hourly.members}
    assert len(ids) == 2
    assert "a copy of the other's" not in caplog.text


class Beside(Clock):
    """A clock of a query beside which a stream goes on."""

    def __init__(self):
        super().__init__()
        self.stream, self.waited_s = None, 0.0

    def sleep(self, seconds):
        super().sleep(seconds)
        stream, self.stream = self.stream, None  # it does not wait itself
        if stream is not None:
            self.waited_s += seconds
            assert self.waited_s < 60, "the run waits for ever"
            stream.plan()
            self.stream = stream


@pytest.mark.parametrize("repeat_s", [0.0, 1.0])
def test_a_run_after_one_that_was_killed_does_not_wait_for_a_stream_that_waits_for_it(tmp_path, repeat_s):
    clock = Beside()
    notes = lambda: NoteFolder(LocalFolder(tmp_path, "alignment location"), repeat_s)  # noqa: E731
    hourly = Member(clock, Logs(a=[100, 400]), bounded=True, notes=notes)
    stream = Member(clock, Logs(a=[100]), notes=notes)
    for _ in range(4):
        hourly.plan()
        stream.plan()
        clock.sleep(2)
    hourly.stop()
    hourly.start()
    hourly.make_plan()
    hourly.die()  # it has stored nothing, so its note may be that of a copy
    stream.stop()
    stream.start()
    stream.logs.times["a"] += [405, 500]
    for _ in range(3):
        stream.plan()
    clock.stream = stream
    hourly.start()
    assert [hourly.plan(), hourly.plan()] == [[], [400]]
    assert clock.waited_s < 1


def test_a_bounded_member_plans_again_if_the_one_that_holds_it_has_come_and_ended_since_its_plan(tmp_path):
    clock = Clock()
    early, coming = (GroupFolder(NoteFolder(LocalFolder(tmp_path, "it")), 10, clocks=clock.clocks) for _ in range(2))
    early.join({"id": "early", "peers": {"coming": ["of before", 1]}}, bounded=True)
    assert early.bound(100, None).held_by == "coming"
    coming.join({"id": "coming"}, bounded=True)
    coming.tell(95)
    coming.tell_done(done=True)
    assert early.waits_for("coming")
    early.bound(100, None)
    assert not early.waits_for("coming")


@pytest.mark.parametrize("count", [2, 3])
def test_bounded_members_that_can_only_wait_for_each_other_end(tmp_path, count):
    """Each has read its lowest split to the end, and has nothing else below the bound that another sets for it."""
    clock = Clock()
    groups = [GroupFolder(NoteFolder(LocalFolder(tmp_path, "it")), 10, clocks=clock.clocks) for _ in range(count)]
    for number, group in enumerate(groups):
        group.join({"id": str(number)}, bounded=True)
        group.tell(number)
    for number, group in enumerate(groups):
        group.bound(number, None)
    waiting = [group.waits_for(str((number + 1) % count)) for number, group in enumerate(groups)]
    assert waiting == [True] * (count - 1) + [False]

    assert not groups[1].waits_for(None)  # it has something to read after all
    for group in groups:
        group.renew()
    assert groups[0].waits_for("1")
    groups[0].waits_for(None)
    groups[1].waits_for("0")
    groups[0].tell(3)  # what the other has waited for has come, so it plans again
    for group in groups:
        group.renew()
    assert groups[0].waits_for("1")
