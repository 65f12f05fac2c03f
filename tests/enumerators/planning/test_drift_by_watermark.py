"""With alignment by watermark, a split is not read if its generator is further past the slowest than the drift."""

from datetime import timedelta

from hypothesis import event, given
from hypothesis import strategies as st

from tests.support.clocks import Clock
from tests.support.logs import Logs, all_records, coordinator, read
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.generators.contract import RowWatermarkGenerator
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

MARK, IDLE_S = 5, 60


class MarksOfFive(RowWatermarkGenerator):
    """Each time that is a multiple of 5 marks that all earlier rows have come."""

    def on_row(self, row, event_time_ms, output):
        if event_time_ms % MARK == 0:
            output.emit_watermark(event_time_ms - 1)


def first_open(times):
    """Return the first time that the marks among the rows of a split leave open, by an oracle."""
    return max([0, *(at_ms for at_ms in times if at_ms % MARK == 0)])


def strategy(drift, **group):
    made = WatermarkStrategy.for_generator(MarksOfFive).with_idleness(timedelta(seconds=IDLE_S))
    return made.with_watermark_alignment(max_drift=timedelta(milliseconds=drift), **group)


TIMES = st.lists(st.integers(0, 60), max_size=12).map(sorted)


@given(
    logs=st.dictionaries(st.sampled_from("abcd"), TIMES, min_size=2),
    drift=st.integers(1, 12),
    rows=st.sampled_from([None, None, 1, 3]),
)
def test_batches_keep_within_the_drift_of_watermarks_and_read_everything(logs, drift, rows):
    clock, source = Clock(), Logs(**logs)
    run = coordinator(source, clock, watermarks=strategy(drift), drift_by_watermark=True)
    budget = UNLIMITED if rows is None else Budget(rows=rows)
    last, positions, records = INITIAL_OFFSET, dict.fromkeys(logs, 0), []
    for _ in range(200):
        offset = run.latest_offset(last, budget)
        batch = read(run, last, offset)
        open_ms = {s: first_open(logs[s][:at]) for s, at in positions.items()}
        unread = {s for s in logs if positions[s] < len(logs[s])}
        holding = set(logs) - set(offset.get("idle", ()))
        by_split = {s: [logs[s][at] for split, at in batch if split == s] for s in {split for split, _ in batch}}
        if batch:
            low_ms = min(open_ms[s] for s in holding)
            assert all(open_ms[s] < low_ms + drift for s in by_split)
            event("a split with unread rows waits" if unread - by_split.keys() else "all are read")
        if batch and rows is None:  # all splits within the drift are read, one slice of time after the other
            within = {s for s in unread if open_ms[s] < low_ms + drift}
            heads = {s: logs[s][positions[s]] for s in within}
            bound_ms = min(heads.values()) + drift
            assert all(at_ms < bound_ms for times in by_split.values() for at_ms in times)
            assert all(s in by_split for s, head in heads.items() if head < bound_ms)
        records += batch
        positions = {**positions, **{s: at + 1 for s, at in batch}}
        if offset == last and not unread:
            break
        if offset == last:
            clock.sleep(IDLE_S + 1)  # the splits that hold back the others have nothing to read
        last = offset
    assert sorted(records) == all_records(source)
