"""Plans whose max drift is between the watermarks of generators: the split that holds them, and its name."""

from dataclasses import replace

from tests.alignment.logs import KafkaLike, log
from tidegate.alignment.group import GroupBound
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent
from tidegate.alignment.standing import find_standing, with_generated
from tidegate.alignment.states import SplitState

DRIFT_10 = Limits(max_drift_ms=10, drift_by_watermark=True, generated=True)
READS_ON, WAITS = SplitState.READING, SplitState.PAUSED


def planned_by(said, limits=DRIFT_10, *, not_held_by=None, watermark_ms=None, group=None):
    """Return the plan for splits from which nothing has been read.

    said: the log of each split, and the watermark of its generator.
    not_held_by: a split that is no part of the source's watermark.
    """
    logs = {split: readable for split, (readable, _) in said.items()}
    index, extents = TimeIndex(KafkaLike(logs)), {s: Extent(log.begin, log.end) for s, log in logs.items()}
    progress = Progress({s: log.begin for s, log in logs.items()}, watermark_ms=watermark_ms)
    standing = find_standing(progress, extents, (), index, limits)
    watermarks = {split: at_ms for split, (_, at_ms) in said.items()}
    standing = with_generated(standing, watermark_ms, watermarks, said.keys() - {not_held_by}, limits)
    return plan(standing, group, index, limits)


def read_by(planned):
    """Return how many positions of each split the batch reads."""
    return {s: read.end - read.start for s, read in planned.ranges.items()}


LATE_AND_FAST = {"late": (log(20, 30), 15), "fast": (log(101, 102), 100)}


def test_all_wait_for_a_split_that_catches_up_though_the_watermark_does_not():
    limits = replace(DRIFT_10, late_splits="catch-up")
    planned = planned_by(LATE_AND_FAST, limits, not_held_by="late", watermark_ms=100)
    assert (planned.low_ms, planned.held_by) == (16, "late")
    assert read_by(planned) == {"late": 1}
    assert planned.splits["fast"].state is WAITS


def test_a_late_split_that_is_admitted_neither_holds_the_others_nor_narrows_their_slice():
    planned = planned_by(LATE_AND_FAST, not_held_by="late", watermark_ms=100)
    assert (planned.low_ms, planned.held_by) == (101, "fast")
    assert read_by(planned) == {"late": 2, "fast": 2}


def test_rows_of_the_future_are_held_within_the_drift_too():
    planned = planned_by(
        {"now": (log(1, 4, 6), 0), "future": (log(5, 6), 0)}, replace(DRIFT_10, horizon_ms=5), group=GroupBound()
    )
    assert read_by(planned) == {"now": 2}
    assert planned.splits["future"].state is WAITS


RARE_MARKS = {"slow": (log(95, 96), 4), "fast": (log(101, 102), 100)}


def test_a_split_whose_generator_is_too_far_is_paused_though_its_next_row_is_near():
    planned = planned_by(RARE_MARKS)
    assert {s: said.state for s, said in planned.splits.items()} == {"slow": READS_ON, "fast": WAITS}
    assert (planned.low_ms, planned.held_by) == (5, "slow")


def test_the_member_of_the_group_that_pauses_a_split_is_named():
    planned = planned_by({"fast": RARE_MARKS["fast"]}, group=GroupBound(2, 12, "another"))
    assert (planned.low_ms, planned.held_by) == (2, "another")
    assert (read_by(planned), planned.splits["fast"].state) == ({}, WAITS)


def test_after_a_batch_the_group_is_told_no_more_than_generators_have_seen():
    planned = planned_by(RARE_MARKS, group=GroupBound())
    assert read_by(planned) == {"slow": 2}
    assert planned.next_low_ms == 5
