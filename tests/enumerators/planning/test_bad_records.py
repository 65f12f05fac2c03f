"""What the coordinator hears: bad records are counted once, and extents wait for news."""

import pytest

from tests.support.logs import WALL, Clock, Logs, caught_up, coordinator, drain
from tidegate.alignment.generators import AscendingTimestampsWatermarks
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.notes.application import BadRecordNote, bad_records_noted, offset_digest
from tidegate.enumerators.planning.observing import BadRecordTally
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, Offset
from tidegate.readers.events.event import BAD_RECORDS, SourceEvent


def bad(split, start, end, number):
    return SourceEvent(split, start, end, {"number": number}, BAD_RECORDS)


class Reported:
    """The events that executors have sent, until they are taken."""

    def __init__(self):
        self.events = []

    def __call__(self, about):
        assert about == BAD_RECORDS
        taken, self.events = self.events, []
        return taken


def test_a_task_that_is_repeated_counts_once():
    reported = Reported()
    tally = BadRecordTally(0, lambda: reported(BAD_RECORDS))
    reported.events = [bad("a", 0, 5, 2), bad("a", 5, 9, 1), bad("a", 0, 5, 2), bad("b", 0, 3, 4)]
    tally.count({"a": 9, "b": 3})
    assert tally.total == 7
    reported.events = [bad("a", 5, 9, 1), bad("a", 9, 11, 1)]
    tally.count({"a": 11, "b": 3})
    assert tally.total == 8


def test_a_split_that_begins_anew_counts_from_its_beginning():
    reported = Reported()
    tally = BadRecordTally(0, lambda: reported(BAD_RECORDS))
    tally.count({"a": 9})
    tally.begin(["a"])
    reported.events = [bad("a", 0, 2, 2)]
    tally.count({"a": 2})
    assert tally.total == 2


def test_the_offset_holds_the_number_and_the_last_batch_counts_too():
    logs, reported = Logs(a=[1, 2, 3]), Reported()
    run = coordinator(logs, take_events=reported, counts_bad_records=True)
    first = run.latest_offset(INITIAL_OFFSET)
    assert run.source_progress()["badRecordsTotal"] == 0
    assert "badRecords" not in first
    reported.events = [bad("a", 0, 3, 2)]
    second = run.latest_offset(first)
    assert (second["badRecords"], run.tasks(first, second)) == (2, [])
    assert run.source_progress()["badRecordsTotal"] == 2
    assert run.latest_offset(second) is second
    assert Offset.from_json(second).to_json() == second

    restarted = coordinator(logs, take_events=reported, counts_bad_records=True)
    logs.times["a"] += [4]
    reported.events = [bad("a", 0, 3, 2)]  # the batch that a restart repeats
    assert drain(restarted, first)[1]["badRecords"] == 2
    without = coordinator(logs)
    assert drain(without, second)[1]["badRecords"] == 2


@pytest.mark.usefixtures("own_temporary_folder")
def test_a_note_has_the_numbers_after_the_batch_that_is_read_and_the_one_before_it():
    note, offsets = BadRecordNote("9f1c"), [{"v": at} for at in range(3)]

    def noted():
        return [bad_records_noted("9f1c").get(offset_digest(offset)) for offset in offsets]

    note.begin(offsets[0], offsets[1], 5)
    note.add([bad("a", 0, 5, 2), bad("b", 0, 5, 1)])
    note.begin(offsets[0], offsets[1], 5)  # Spark plans it once more, for another action on the same batch
    note.add([bad("a", 0, 5, 2)])
    assert noted() == [5, 8, None]
    note.begin(offsets[1], offsets[2], 8)
    assert noted() == [None, 8, 8]
    assert bad_records_noted("of another machine") == {}


POLLS = 20


class PassingClocks(Clocks):
    are_real = True


class PassingClock(Clock):
    """Clocks that a test moves, and that a run takes for real ones."""

    @property
    def clocks(self):
        return PassingClocks(self, lambda: WALL + self.now, self.sleep)


class News(Logs):
    """Logs that know whether something was added."""

    def __init__(self, clock, **times):
        super().__init__(**times)
        self.clock, self.seen, self.plans = clock, 0, 0

    def commit(self, positions):  # called before every plan
        self.plans += 1

    def extents(self, splits):
        self.seen = self.size
        return super().extents(splits)

    def wait(self, seconds):
        self.clock.sleep(seconds)
        return self.size != self.seen

    @property
    def size(self):
        return sum(map(len, self.times.values()))


def looks(logs, run, start, polls=POLLS, **asked):
    """Return how often extents were requested in this number of polls without news."""
    before = logs.asked["extents"]
    for _ in range(polls):
        assert run.latest_offset(start, **asked) == start
    return logs.asked["extents"] - before


@pytest.fixture
def clock():
    return PassingClock()


@pytest.mark.parametrize(
    "settings",
    [{}, {"watermarks": WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)}],
    ids=["plain", "generator"],
)
def test_extents_that_stay_the_same_are_asked_for_every_few_seconds_and_others_at_once(clock, settings):
    logs = News(clock, a=[1, 2, 3], b=[])
    run = coordinator(logs, clock, **settings)
    read, last = drain(run, INITIAL_OFFSET)
    assert len(read) == 3
    looks(logs, run, last, polls=1)
    assert looks(logs, run, last) == 0
    assert looks(logs, run, last, polls=60) == 1  # six seconds
    logs.times["b"].append(5)
    assert run.latest_offset(last)["positions"] == {"a": 3, "b": 1}


def test_a_batch_that_is_put_off_is_planned_again_when_rows_come_or_its_delay_is_over(clock):
    logs = News(clock, a=[1, 2, 3])
    run, last = caught_up(coordinator(logs, clock, max_trigger_delay_s=4))
    logs.times["a"].append(4)
    looks(logs, run, last, polls=1, min_rows=3)
    plans = logs.plans
    looks(logs, run, last, polls=15, min_rows=3)
    assert logs.plans == plans
    logs.times["a"].append(5)
    looks(logs, run, last, polls=15, min_rows=3)
    assert logs.plans == plans + 1
    polls = 0
    while run.latest_offset(last, min_rows=3) == last:
        polls += 1
    assert clock.now == pytest.approx(4, abs=0.2)
    assert logs.plans == plans + 2
    assert 0 < polls < 40
