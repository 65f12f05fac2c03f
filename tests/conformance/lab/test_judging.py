"""The judge of batches, tested by examples that are small enough to check by eye."""

import pytest

from tidegate.conformance.lab.judging import dropped, late, past_the_bound, pauses
from tidegate.conformance.lab.query import Batch

SPLITS = {0: ["0#0", "0#1", "0#2"], 1: ["1#0", "1#1"]}
TIMES = {"0#0": 0, "0#1": 10, "0#2": 20, "1#0": 5, "1#1": 25}


def batches(*of, watermarks=()):
    """Return batches of these keys; the watermarks are those of the first batches."""
    ends = [{} for _ in of]
    for end, value in zip(ends, watermarks, strict=False):
        end["watermark"] = value
    return [Batch(n, {}, end, keys.split()) for n, (keys, end) in enumerate(zip(of, ends, strict=True))]


def test_rows_within_the_drift_of_the_oldest_that_comes_next_are_allowed():
    assert past_the_bound(SPLITS, TIMES, batches("0#0 1#0", "0#1", "0#2 1#1"), 10) is None


@pytest.mark.parametrize(("drift_ms", "disorder_ms", "wrong"), [(10, 0, True), (11, 0, False), (10, 1, False)])
def test_the_bound_is_exclusive_and_the_disorder_goes_on_top(drift_ms, disorder_ms, wrong):
    said = past_the_bound(SPLITS, TIMES, batches("0#0 0#1"), drift_ms, disorder_ms=disorder_ms)
    assert (said is not None) == wrong
    assert said is None or ("reads 0#1 at or past the bound" in said and "0#0" in said)


def test_a_bound_once_reached_stays_though_older_rows_come_to_be_known():
    read = batches("0#0 1#0", "0#1", "0#2")
    assert past_the_bound({0: SPLITS[0], 1: ["1#0", "1#1"]}, {**TIMES, "1#1": 5}, read, 20) is None


def test_rows_that_are_late_hold_nobody():
    splits, times = {0: SPLITS[0], 1: ["1#0"]}, {"0#0": 0, "0#1": 10, "0#2": 20, "1#0": 5}
    assert past_the_bound(splits, times, batches("0#0", "0#1", "0#2", watermarks=[9, 9]), 11) is None
    assert "0#1" in past_the_bound(splits, times, batches("0#0", "0#1", "0#2"), 5)


def test_a_pause_is_a_batch_with_rows_but_none_of_a_split_that_has_some():
    assert list(pauses(SPLITS, batches("0#0", "", "1#0 1#1", "0#1 0#2"))) == [(0, 1), (2, 0)]


def test_a_row_is_late_at_the_watermark_itself():
    assert late(TIMES, batches("0#0", "0#1", watermarks=[9])) is None
    assert "batch 1 reads 0#1" in late(TIMES, batches("0#0", "0#1", watermarks=[10]))


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (("0#0 0#1", "1#0"), "1#0 of batch 1: by the watermark of the batch itself"),
        (("0#0", "0#1 1#0"), None),  # the watermark comes from earlier batches
        (("0#0 0#1", "0#2", "1#0 1#1"), "1#0 of batch 2: by the watermark of the batch before"),
        (("0#0 1#0", "0#1 0#2", "1#1"), None),
    ],
)
def test_spark_drops_what_lies_at_or_before_the_greatest_time_of_earlier_batches(read, said):
    verdict = dropped(SPLITS, TIMES, batches(*read), 0)
    assert verdict is None if said is None else said in verdict


@pytest.mark.parametrize(("out_of_orderness_ms", "wrong"), [(4, True), (5, True), (6, False)])
def test_the_out_of_orderness_is_sparks_delay(out_of_orderness_ms, wrong):
    assert (dropped(SPLITS, TIMES, batches("0#0 0#1", "1#0"), out_of_orderness_ms) is not None) == wrong


def test_spark_may_drop_what_is_further_out_of_order_than_allowed():
    splits, times, read = {0: ["0#0", "0#1"]}, {"0#0": 10, "0#1": 4}, batches("0#0", "0#1")
    assert dropped(splits, times, read, 5) is None
    assert "0#1 is late by 0 ms" in dropped(splits, times, read, 6)
