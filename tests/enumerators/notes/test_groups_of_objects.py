"""Two sources in one group, one of which reads objects: how long it holds back the other, in streams and hourly."""

import threading
from itertools import count
from types import SimpleNamespace

import pytest

from tests.enumerators.notes.group_members import DRIFT, IDLE_S, Member, MemberOfObjects
from tests.enumerators.notes.test_hourly_groups import EPOCH_MS, HOUR_MS, SCHEDULES, Hourly
from tests.support.command import await_that
from tests.support.logs import WALL, Clock, Logs
from tidegate.enumerators.s3.discovery import rounds
from tidegate.sources.s3 import source

pytestmark = pytest.mark.usefixtures("own_temporary_folder")

NOW_MS = int(WALL * 1000)
YEARS_MS = 7 * 365 * 86_400_000
DISCOVERY_S = 2.0
NEVER_COMES_MS = 2**42
UPLOAD_S = IDLE_S - 1  # the time between two uploads


class Pair:
    """A source of objects, and a topic with a record every ms, which could be read at once."""

    def __init__(self, tmp_path, bucket, begin_ms=1000, *, bounded=False, discovery_interval_s=DISCOVERY_S, **about):
        self.clock, self.bucket, self.names = Clock(), bucket, count()
        counted = {"expected": 2, "bounded": bounded}
        self.topic = Member(self.clock, Logs(a=list(range(begin_ms, begin_ms + 200))), **counted)
        looking = {"discovery_interval_s": discovery_interval_s, "about": about}
        self.objects = MemberOfObjects(self.clock, bucket, tmp_path / "state", **looking, **counted)

    def put(self, *times):
        """Upload an object of a row for each of some times."""
        self.bucket.put_rows(f"{next(self.names):04}.json", enumerate(times))

    def go_on(self, seconds, step_s=0.25):
        """Let both plan in turns for some time."""
        end_s = self.clock.now + seconds
        while self.clock.now < end_s:
            for member in (self.objects, self.topic):
                member.plan()
            self.clock.sleep(step_s)

    def restart(self):
        self.objects.die()
        self.objects.run.close()
        self.objects.start()

    @property
    def ahead_ms(self):
        """The event time that the topic has been read to."""
        return max(self.topic.seen)


@pytest.fixture
def pair(tmp_path, bucket):
    made = []

    def make(**options):
        made.append(Pair(tmp_path, bucket, **options))
        return made[-1]

    yield make
    for each in made:
        for member in (each.objects, each.topic):
            member.stop()


@pytest.mark.parametrize("times", [[1000], [1000, 1001], [1000, 990]])
def test_a_path_that_gets_objects_all_the_time_holds_the_others_though_times_are_equal_or_earlier(pair, times):
    both = pair()
    for number in range(8):
        both.put(*times[: number + 1])
        both.go_on(UPLOAD_S)
    assert max(times) <= both.ahead_ms < max(times) + DRIFT
    assert len(both.objects.seen) == sum(len(times[: number + 1]) for number in range(8))


def test_a_path_holds_the_others_also_if_its_stream_starts_again_and_again(pair):
    both = pair()
    for _ in range(8):
        both.put(1000)
        both.go_on(UPLOAD_S)
        both.restart()
    assert both.ahead_ms < 1000 + DRIFT


def test_a_path_holds_the_others_behind_an_object_that_is_far_ahead(pair):
    both = pair()
    both.put(1000)
    both.put(1150)
    both.go_on(DISCOVERY_S)
    for _ in range(6):
        both.put(1100)
        both.go_on(UPLOAD_S)
    assert (both.objects.seen, both.ahead_ms) == ([1000, *[1100] * 6], 1100 + DRIFT - 1)
    both.go_on(4 * IDLE_S)
    assert both.objects.seen[-1] == 1150


def test_a_path_that_gets_nothing_more_frees_the_others(pair):
    both = pair()
    both.put(1000)
    both.go_on(UPLOAD_S)
    assert both.ahead_ms < 1000 + DRIFT
    both.go_on(2 * DISCOVERY_S + IDLE_S + 6)
    assert both.ahead_ms == 1199


def test_nobody_waits_where_the_objects_of_a_path_are_further_apart_than_the_drift(pair):
    both = pair()
    for number in range(4):
        both.put(1000 + 30 * number)
        both.go_on(UPLOAD_S)
    assert both.objects.seen == [1000, 1030, 1060, 1090]
    assert 1090 <= both.ahead_ms < 1090 + DRIFT


@pytest.mark.parametrize("uploads", [[[0], [YEARS_MS]], [[0], [0, YEARS_MS]], [[0, YEARS_MS]] * 12])
def test_an_object_of_the_future_that_waits_for_the_clock_frees_nobody(pair, uploads):
    both = pair(begin_ms=NOW_MS, future_event_time="hold")
    for ahead in uploads:
        for ms in ahead:
            both.put(NOW_MS + ms)
        both.go_on(UPLOAD_S / 2)
    assert both.ahead_ms < NOW_MS + DRIFT
    assert len(both.objects.seen) == len([ms for ahead in uploads for ms in ahead if not ms])


@pytest.mark.parametrize("bounded", [False, True])
def test_an_object_of_the_future_is_read_once_its_time_has_come(pair, bounded):
    both = pair(begin_ms=NOW_MS, future_event_time="hold", bounded=bounded)
    to_come_ms = NOW_MS + 86_400_000 + 3000  # more than maxFutureSkew ahead for 3 s
    both.put(NOW_MS)
    both.put(to_come_ms)
    both.go_on(2)
    assert both.objects.seen == [NOW_MS]
    both.go_on(4 * IDLE_S)
    for member in (both.topic, both.objects) if bounded else ():
        member.stop()
        member.start()
    both.go_on(4 * IDLE_S)
    assert both.objects.seen == [NOW_MS, to_come_ms]


def test_a_path_at_which_nobody_has_looked_since_it_was_read_is_not_idle(pair):
    both = pair(discovery_interval_s=300.0)
    both.put(1000)
    for _ in range(4):
        both.go_on(150, step_s=2.5)
        both.put(1000)
        both.go_on(150, step_s=2.5)
    assert both.ahead_ms < 1000 + DRIFT
    both.go_on(2 * 300 + IDLE_S + 50, step_s=2.5)
    assert both.ahead_ms == 1199


def test_a_path_is_not_idle_while_the_first_round_since_it_was_read_takes_long(pair, monkeypatch):
    monkeypatch.setattr(rounds, "_PATIENCE_S", 0.01)
    both, go_on = pair(), threading.Event()
    both.put(1000)
    both.go_on(DISCOVERY_S / 2)
    find = both.objects.found.round
    monkeypatch.setattr(both.objects.found, "round", lambda **how: go_on.wait(60) and find(**how))
    both.put(1000)
    both.go_on(4 * IDLE_S)
    assert (both.objects.seen, both.ahead_ms < 1000 + DRIFT) == ([1000], True)
    go_on.set()
    await_that(lambda: both.go_on(DISCOVERY_S) or both.objects.seen == [1000, 1000])
    assert both.ahead_ms < 1000 + DRIFT


def test_a_manifest_that_was_idle_is_not_late_once_another_one_follows_it(pair, monkeypatch):
    both = pair()
    both.put(1000)
    both.go_on(4 * IDLE_S)
    assert len(both.objects.offset["idle"]) == 1
    both.put(1100)
    offsets = []
    while both.objects.seen != [1000, 1100]:
        before = both.objects.offset
        both.objects.plan()
        both.clock.sleep(0.25)
        offsets.append(both.objects.offset)
    assert [offset["late"] for offset in offsets if "late" in offset] == []
    # Otherwise a run that begins by repeating the batch would hold back the others at the beginning of time.
    both.objects.run.close()
    both.objects.start()
    lows_ms = []
    monkeypatch.setattr(both.objects.group, "tell", lows_ms.append)
    both.objects.run.tasks(before, both.objects.offset)
    assert min(lows_ms) > 1000


@pytest.mark.parametrize(
    ("ending_ms", "read_to_ms"), [(None, 1000 + DRIFT - 1), (NEVER_COMES_MS, 1000 + DRIFT - 1), (1001, 1199)]
)
def test_a_path_whose_end_has_come_frees_the_others_as_a_topic_does_at_its_end(pair, ending_ms, read_to_ms):
    both = pair(ending_timestamp=ending_ms, bounded=True)
    both.put(1000)
    both.go_on(2 * UPLOAD_S)
    assert (both.objects.seen, both.ahead_ms) == ([1000], read_to_ms)


@pytest.mark.parametrize(("passed_s", "read_to_ms"), [(IDLE_S / 2, NOW_MS + DRIFT - 1), (IDLE_S + 1, NOW_MS + 199)])
def test_the_end_of_a_path_has_come_idle_timeout_after_its_time(pair, monkeypatch, passed_s, read_to_ms):
    monkeypatch.setattr(source, "time", SimpleNamespace(time=lambda: WALL + 1 + passed_s))
    both = pair(begin_ms=NOW_MS, ending_timestamp=NOW_MS + 1000, bounded=True)
    both.put(NOW_MS)
    both.go_on(2 * UPLOAD_S)
    assert (both.objects.seen, both.ahead_ms) == ([NOW_MS], read_to_ms)


@pytest.mark.parametrize("ends", [{}, {"a": 1}])
def test_a_topic_at_its_end_frees_the_others_and_an_end_of_the_others_does_not(tmp_path, ends):
    clock = Clock()
    ended, ahead = Logs(a=[1000]), Logs(a=[*range(1000, 1200)])
    ended.ends, ahead.ends = ends, {"a": 200}
    some = [Member(clock, logs, expected=2, bounded=True) for logs in (ended, ahead)]
    for _ in range(40):
        for member in some:
            member.plan()
        clock.sleep(0.1)
    assert max(some[1].seen) == (1199 if ends else 1000 + DRIFT - 1)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_path_that_trails_and_gets_no_more_objects_frees_the_others_one_run_later(tmp_path, bucket, schedule):
    hourly, unread = Hourly(tmp_path, bucket=bucket), []
    for hour in range(8):
        hourly.write(*hourly.members[: 1 if hour >= 5 else 2])
        schedule(hourly, hourly.members)
        unread.append(hourly.unread(0))
        hourly.pass_an_hour()
    assert (hourly.late, len(hourly.members[1].seen)) == ([], 5 * 60)
    assert unread[4] >= 120
    assert unread[6:] == [0, 0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_row_of_objects_that_trail_is_late_though_all_rows_of_a_period_have_one_time(tmp_path, bucket, schedule):
    hourly, unread = Hourly(tmp_path, bucket=bucket, period_ms=2 * HOUR_MS), []
    for _ in range(12):
        hourly.write()
        schedule(hourly, hourly.members)
        unread.append(hourly.unread(0))
        hourly.pass_an_hour()
    assert hourly.late == []
    assert min(unread[2:]) >= 60
    assert len(hourly.members[1].seen) >= 11 * 60


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_only_the_rows_of_an_object_of_an_earlier_period_are_late_where_it_comes_as_the_last_one(
    tmp_path, bucket, schedule
):
    hourly, early = Hourly(tmp_path, bucket=bucket), [EPOCH_MS - 9 * HOUR_MS + minute for minute in range(3)]
    for hour in range(9):
        if hour == 4:
            bucket.put_rows("early.json", enumerate(early))  # alone: the hour brings no other
        hourly.write(*hourly.members[: 1 if hour == 4 else 2])
        schedule(hourly, hourly.members)
        hourly.pass_an_hour()
    assert hourly.late == early
    assert hourly.unread(0) >= 120
