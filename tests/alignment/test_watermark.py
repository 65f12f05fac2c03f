from __future__ import annotations

from tidegate.alignment.watermark import combine, split_watermark


def test_the_watermark_lies_a_millisecond_below_what_may_still_come() -> None:
    assert split_watermark(1000, 0) == 999
    assert split_watermark(1000, 300) == 699


def test_the_slowest_split_that_holds_decides() -> None:
    assert combine([5, 3, 9], [1, 100]) == 3


def test_when_nobody_holds_the_greatest_is_taken() -> None:
    assert combine([], [1, 100]) == 100


def test_without_a_split_there_is_no_watermark() -> None:
    assert combine([], []) is None
