"""Generated watermarks in the offsets of a run."""

from datetime import timedelta

from tests.support.logs import WALL, Logs, coordinator, drain
from tidegate.alignment.budget import Budget
from tidegate.alignment.generators.bounded import AscendingTimestampsWatermarks
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.readers.event_time.policy import EventTimePolicy

ASCENDING = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)


def watermarks(run, start, budget):
    """Return the watermark of each offset up to the end, and the last offset."""
    watermarks_ms = []
    while (end := run.latest_offset(start, budget)) != start:
        watermarks_ms.append(end.get("watermark"))
        start = end
    return watermarks_ms, start


def test_the_watermark_of_a_batch_is_what_generators_say_of_the_rows_before_it():
    run = coordinator(Logs(a=[10, 20, 30]), watermarks=ASCENDING)
    assert watermarks(run, INITIAL_OFFSET, Budget(rows=1))[0] == [None, 9, 19, 29]


def test_a_restart_at_any_offset_says_the_same():
    logs, budget = Logs(a=[10, 20, 30, 40], b=[5, 25, 35, 38]), Budget(rows=2)
    expected, _ = watermarks(coordinator(logs, watermarks=ASCENDING), INITIAL_OFFSET, budget)
    watermarks_ms, start = [], INITIAL_OFFSET
    while (end := coordinator(logs, watermarks=ASCENDING).latest_offset(start, budget)) != start:
        watermarks_ms.append(end.get("watermark"))
        start = end
    assert watermarks_ms == expected
    assert watermarks_ms[-1] == 37


def test_a_split_whose_next_row_is_in_the_future_holds_back_neither_the_watermark_nor_the_others():
    now_ms = int(WALL * 1000)
    times_ms = range(now_ms - 90, now_ms, 10)
    logs = Logs(a=times_ms, held=[now_ms - 90, now_ms + 1_000])
    strategy = ASCENDING.with_watermark_alignment(max_drift=timedelta(milliseconds=10))
    run = coordinator(
        logs,
        watermarks=strategy,
        event_times=EventTimePolicy(future="hold", max_future_skew_ms=0),
    )
    read, last = drain(run, INITIAL_OFFSET)
    assert len(read) == 10
    assert last["watermark"] == times_ms[-1] - 1


def test_a_restart_with_generators_for_the_first_time_keeps_the_watermark_until_all_splits_have_one():
    logs = Logs(a=[10, 20, 30], b=[15, 25, 35])
    _, last = drain(coordinator(logs, watermarks=WatermarkStrategy()), INITIAL_OFFSET)
    assert last["watermark"] == 29
    logs.times["a"] += [60]
    run = coordinator(logs, watermarks=ASCENDING)
    watermarks_ms, last = watermarks(run, last, Budget())
    assert watermarks_ms == [29]  # b has no watermark: rows that were read before are not shown to a generator
    logs.times["b"] += [50]
    watermarks_ms, last = watermarks(run, last, Budget())
    assert watermarks_ms == [29, 49]
    # Without generators the watermark is planned again, and goes on from its last value.
    logs.times["b"] += [70]
    watermarks_ms, _ = watermarks(coordinator(logs, watermarks=WatermarkStrategy()), last, Budget())
    assert watermarks_ms == [59]


def test_data_loss_that_is_accepted_costs_the_state_of_no_generator():
    logs = Logs(a=[10, 20, 30, 40], b=[11, 12, 13])
    run = coordinator(logs, watermarks=ASCENDING, fail_on_data_loss=False)
    first = run.latest_offset(INITIAL_OFFSET, Budget(rows=4))
    logs.begins["b"] = 3
    second = run.latest_offset(first)
    assert second["positions"] == {"a": 4, "b": 3}
    assert second["generators"]["unseen"].keys() == {s for s in "ab" if second["positions"][s] > first["positions"][s]}
