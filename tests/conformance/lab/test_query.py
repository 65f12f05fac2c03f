"""The judge of batches, tested by examples that are small enough to check by eye."""

import pytest

from tidegate.conformance.lab.query import Batch, dropped

SPLITS = {0: ["0#0", "0#1", "0#2"], 1: ["1#0", "1#1"]}
TIMES = {"0#0": 0, "0#1": 10, "0#2": 20, "1#0": 5, "1#1": 25}


def batches(*of):
    """Return batches of these keys."""
    return [Batch(n, {}, {}, keys.split()) for n, keys in enumerate(of)]


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
