"""Generators give the same watermarks, whichever process shows them the rows."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.alignment.generators import (
    BoundedOutOfOrdernessWatermarks,
    GeneratorRun,
    RowWatermarkGenerator,
    SplitWatermark,
)
from tidegate.alignment.outcome import generated_watermark, holding_generators
from tidegate.alignment.plan import SplitState
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.planning.generated import GeneratedWatermarks, watermarks_before
from tidegate.errors import DataLossError
from tidegate.readers.contract import ReadTask, TimedBatch
from tidegate.readers.events.event import SourceEvent


class EveryThird(RowWatermarkGenerator):
    """Emits the third, the sixth, the ninth time and so on: it must count all rows, in order."""

    def __init__(self):
        self._rows = 0

    def on_row(self, row, event_time_ms, output):
        self._rows += 1
        if self._rows % 3 == 0:
            output.emit_watermark(event_time_ms)

    def snapshot(self):
        return {"rows": self._rows}

    def restore(self, state):
        self._rows = state["rows"]


class ToItsEnd(RowWatermarkGenerator):
    """Marks its split idle at its last row, which is at 99."""

    def on_row(self, row, event_time_ms, output):
        output.emit_watermark(event_time_ms)
        if event_time_ms == 99:
            output.mark_idle()


def bounded():
    return BoundedOutOfOrdernessWatermarks(timedelta(milliseconds=3))


ROWS = st.lists(st.integers(-100, 100), min_size=1, max_size=12)
SUPPLIERS = {"every third": EveryThird, "bounded": bounded}


class Splits:
    """Rows by split; a row's position is its place in the list, and its value is its event time."""

    def __init__(self, times):
        self.times = times
        self.read_here = []

    def read(self, wanted):
        self.read_here.append(wanted)
        return self.rows(wanted)

    def rows(self, wanted):
        times = pa.array(self.times[wanted.split_id][wanted.start : wanted.end], pa.int64())
        half = len(times) // 2
        for part in (times[:half], times[half:]):
            yield TimedBatch(0, pa.record_batch([part], ["at"]), part)

    def event(self, supplier, wanted, before, batch=1, promised_ms=None):
        run = GeneratorRun(supplier(), before, promised_ms)
        for timed in self.rows(wanted):
            run.add(timed.rows, timed.event_times)
        return SourceEvent(wanted.split_id, wanted.start, wanted.end, run.report(), batch=batch)


def alone(supplier, times):
    """Return the watermark of a split's generator after all its rows, shown one by one."""
    run = GeneratorRun(supplier(), SplitWatermark())
    for at_ms in times:
        row = pa.array([at_ms], pa.int64())
        run.add(pa.record_batch([row], ["at"]), row)
    return run.end().watermark_ms


class Planned(GeneratedWatermarks):
    """With the plans of a run, each of which begins with the watermark of the one before."""

    def __init__(self, *parts, watermark_ms=None, **state):
        super().__init__(*parts, **state)
        self._watermark_ms = watermark_ms

    def combine(self, states):
        holding = holding_generators(self.splits, states)
        self._watermark_ms = generated_watermark(self._watermark_ms, self.splits, holding)
        return self._watermark_ms


class Inbox:
    """Events on their way to the coordinator."""

    def __init__(self):
        self.events = []

    def take(self):
        taken, self.events = self.events, []
        return taken


@settings(max_examples=300)
@given(st.sampled_from(sorted(SUPPLIERS)), st.lists(ROWS, min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_events_that_are_lost_doubled_late_or_of_parts_change_nothing(name, rows, chance):
    supplier, splits, inbox = SUPPLIERS[name], Splits(dict(zip("ab", rows, strict=False))), Inbox()
    ends = dict.fromkeys(splits.times, 0)
    generated = begun(splits, inbox.take, supplier)
    states = dict.fromkeys(splits.times, SplitState.CAUGHT_UP)
    while any(ends[s] < len(times) for s, times in splits.times.items()):
        watermark_ms = generated.combine(states)
        ranges = [
            SplitRange(s, at, min(len(splits.times[s]), at + chance.randint(1, 6)))
            for s, at in ends.items()
            if at < len(splits.times[s]) and chance.random() < 0.8
        ]
        ends |= {wanted.split_id: wanted.end for wanted in ranges}
        snapshot = generated.snapshot(ends)
        if chance.random() < 0.3:  # a restart, with the offset of the batch and nothing else
            given = {"snapshot": snapshot, "positions": dict(ends), "watermark_ms": watermark_ms}
            generated = Planned(supplier, splits.read, inbox.take, **given)
        for wanted in ranges:
            cut = chance.randint(wanted.start, wanted.end - 1) if supplier().is_divisible else wanted.start
            parts = [replace(wanted, end=cut), replace(wanted, start=cut)] if cut > wanted.start else [wanted]
            watermarks = watermarks_before(snapshot, ReadTask(tuple(parts)), supplier)
            reported = [
                splits.event(supplier, part, watermarks) for part, watermarks in zip(parts, watermarks, strict=True)
            ]
            inbox.events += chance.choices(reported, k=chance.randint(0, 4))
        late = chance.sample(inbox.events, k=len(inbox.events) // 2)
        generated.see(ends, ends)
        inbox.events += late
    expected = [alone(supplier, times) for times in splits.times.values()]
    assert generated.combine(states) == (None if None in expected else min(expected))


def begun(splits, take_events=tuple, supplier=bounded, names=None, batch=-1):
    """Return generators of splits from which nothing was read."""
    generated = Planned(supplier, splits.read, take_events, snapshot=None, positions={})
    generated.begin(dict.fromkeys(names or splits.times, 0), names or splits.times, batch)
    return generated


def seen(splits, supplier=bounded, **positions):
    generated = begun(splits, supplier=supplier, names=positions)
    generated.see(positions, positions)
    return generated


def test_a_split_that_begins_while_all_others_are_idle_moves_the_watermark():
    splits = Splits({"a": [10], "b": [100, 200]})
    generated = seen(splits, a=1)
    assert generated.combine({"a": SplitState.IDLE}) == 6
    generated.begin({"b": 0}, "ab")
    generated.see({"a": 1, "b": 1}, "ab")
    states = {"a": SplitState.IDLE, "b": SplitState.CAUGHT_UP}
    assert generated.combine(states) == 96
    generated.begin({"b": 0}, "ab")  # it was created anew
    splits.times["b"] = [300]
    generated.see({"a": 1, "b": 1}, "ab")
    assert generated.combine(states) == 296


def test_a_split_that_its_generator_marks_idle_holds_nobody():
    states = dict.fromkeys("ab", SplitState.CAUGHT_UP)
    generated = seen(Splits({"a": [10, 99], "b": [50, 200, 99]}), ToItsEnd, a=1, b=1)
    assert generated.combine(states) == 10
    generated.see({"a": 2, "b": 2}, "ab")
    assert generated.combine(states) == 200  # a is idle at 99
    generated.see({"a": 2, "b": 3}, "ab")
    assert generated.combine(states) == 200


@pytest.mark.parametrize("gone", [SplitState.REMOVED, SplitState.FINISHED])
def test_when_the_last_active_split_goes_the_greatest_watermark_counts(gone):
    generated = seen(Splits({"a": [50], "b": [10], "c": [70]}), a=1, b=1, c=1)
    assert generated.combine(dict.fromkeys("abc", SplitState.CAUGHT_UP)) == 6
    assert generated.combine({"a": SplitState.IDLE, "b": SplitState.CAUGHT_UP, "c": SplitState.IDLE}) == 6
    assert generated.combine({"a": SplitState.IDLE, "b": gone, "c": SplitState.IDLE}) == 66
    assert seen(Splits({"a": [10]}), a=1).combine({"a": gone}) == 6


def test_a_split_that_holds_other_records_begins_anew_and_the_watermark_stays():
    splits = Splits({"a": [100]})
    generated = seen(splits, a=1)
    assert generated.combine({"a": SplitState.CAUGHT_UP}) == 96
    splits.times = {"a": [50, 200]}
    generated.begin({"a": 0}, {"a"})
    assert generated.splits == {"a": SplitWatermark()}
    generated.see({"a": 1}, "ab")
    assert generated.combine({"a": SplitState.CAUGHT_UP}) == 96
    generated.see({"a": 2}, "ab")
    assert generated.combine({"a": SplitState.CAUGHT_UP}) == 196


def test_an_event_of_a_batch_from_before_a_split_began_anew_tells_nothing_of_its_records_now():
    splits, inbox = Splits({"a": [100]}), Inbox()
    generated = begun(splits, inbox.take, batch=0)
    of_old = splits.event(bounded, SplitRange("a", 0, 1), SplitWatermark(), batch=1)
    generated.begin({"a": 0}, "a", 1)  # the topic was deleted and created again
    splits.times = {"a": [50]}
    inbox.events = [of_old]  # its task has hung meanwhile
    generated.see({"a": 1}, "a")
    assert splits.read_here == [SplitRange("a", 0, 1)]
    assert generated.combine({"a": SplitState.CAUGHT_UP}) == 46


def test_rows_behind_the_source_s_watermark_are_counted_once_whoever_shows_them():
    splits, inbox = Splits({"a": [10, 20, 19, 21], "b": [5, 30]}), Inbox()
    generated = begun(splits, inbox.take)
    inbox.events = [splits.event(bounded, SplitRange("a", 0, 4), SplitWatermark(), promised_ms=19)] * 2
    generated.see({"a": 4, "b": 2}, "ab", 19)
    said = generated.progress({})
    assert (said["rows"], said["late_rows"], said["read_here"]) == (6, 3, 2)


def test_a_split_that_begins_twice_before_an_offset_holds_it_still_holds_the_watermark():
    splits = Splits({"a": [10, 100], "b": [5]})
    generated = seen(splits, a=1)
    generated.begin({"b": 7}, "ab")
    generated.begin({"b": 0}, "ab")  # a failed plan is made again, with a later start
    generated.see({"a": 2}, "ab")
    assert generated.combine(dict.fromkeys("ab", SplitState.CAUGHT_UP)) is None


def test_rows_that_were_read_and_are_gone_are_no_loss(caplog):
    def read(wanted):
        raise DataLossError("records 0 to 3 are gone")
        yield

    snapshot = {"splits": {"a": {"watermark": 5}}, "unseen": {"a": 0}}
    generated = Planned(bounded, read, snapshot=snapshot, positions={"a": 3}, watermark_ms=5)
    generated.see({"a": 3}, "a")
    assert generated.combine({"a": SplitState.CAUGHT_UP}) == 5
    assert "records 0 to 3 are gone" in caplog.text
    assert generated.snapshot({"a": 3}) == {"by": "BoundedOutOfOrdernessWatermarks", "splits": {"a": {"watermark": 5}}}


def test_a_split_that_cannot_be_read_now_is_seen_later_unless_an_event_tells_of_it():
    splits, inbox = Splits({"a": [10, 20], "b": [10, 20]}), Inbox()
    generated = begun(splits, inbox.take)
    inbox.events = [splits.event(bounded, SplitRange("b", 0, 2), SplitWatermark())]
    generated.see({"a": 2, "b": 2}, ())
    assert splits.read_here == []
    assert generated.snapshot({"a": 2, "b": 2})["unseen"] == {"a": 0}
    generated.see({"a": 2, "b": 2}, "ab")
    assert splits.read_here == [SplitRange("a", 0, 2)]
    assert generated.combine(dict.fromkeys("ab", SplitState.CAUGHT_UP)) == 16


def test_a_split_that_is_forgotten_leaves_nothing_behind():
    generated = seen(Splits({"a": [10], "b": [3]}), a=1, b=1)
    assert generated.combine(dict.fromkeys("ab", SplitState.CAUGHT_UP)) == -1
    generated.begin({}, "a")
    assert generated.splits.keys() == {"a"}
    assert generated.combine({"a": SplitState.CAUGHT_UP}) == 6
    assert generated.snapshot({"a": 1}).keys() == {"by", "splits"}
    assert generated.progress({"a": True})["by_split"].keys() == {"a"}


def test_another_generator_begins_without_the_state_of_the_one_before(caplog):
    splits = Splits({"a": [10, 20, 30, 40]})
    first = begun(splits, supplier=EveryThird)
    first.see({"a": 3}, "a")
    snapshot = first.snapshot({"a": 4})
    assert watermarks_before(snapshot, ReadTask((SplitRange("a", 3, 4),)), EveryThird)[0].state == {"rows": 3}
    assert watermarks_before(snapshot, ReadTask((SplitRange("a", 3, 4),)), bounded)[0] == SplitWatermark(30)
    second = Planned(bounded, splits.read, snapshot=snapshot, positions={"a": 4}, watermark_ms=30)
    second.see({"a": 4}, "a")
    assert second.combine({"a": SplitState.CAUGHT_UP}) == 36
    assert "was EveryThird, and is BoundedOutOfOrdernessWatermarks now" in caplog.text
