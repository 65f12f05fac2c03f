"""Sums of decimals keep every digit, as Spark's do."""

from decimal import Decimal

import pytest

from tidegate.windows import SqlAggregates

LONG, LONGER = Decimal(12345678901234567890123456789012345), Decimal(12345678901234567890123456789012347)
MIDDLE, SMALL = Decimal(12345678901234567890123456789012346), Decimal("0.01")
SUM = Decimal("12345678901234567890123456789012345.01")


@pytest.mark.parametrize("way", ["one by one", "merged"])
def test_a_sum_of_decimals_loses_no_digit(way):
    total = SqlAggregates(total="sum(price)")
    first = total.add({"price": LONG}, total.create_accumulator())
    if way == "merged":
        both = total.merge(first, total.add({"price": SMALL}, total.create_accumulator()))
    else:
        both = total.add({"price": SMALL}, first)
    assert total.get_result(both) == {"total": SUM}


def test_an_average_of_decimals_loses_no_digit():
    mean = SqlAggregates(mean="avg(price)")
    held = mean.create_accumulator()
    for price in (LONG, LONGER):
        held = mean.add({"price": price}, held)
    assert mean.get_result(held) == {"mean": MIDDLE}
