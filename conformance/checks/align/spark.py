"""ALIGN: batches under Spark's own watermark: the greatest event time of all splits, less a delay."""

from __future__ import annotations

from typing import cast

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.checks.time.bad import IN_THE_YEAR_2200_MS
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.blind import Blind
from tidegate.conformance.lab.judging import dropped
from tidegate.conformance.lab.lab import SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.sources.source import Source

__all__ = [
    "check_rows_that_are_left_out_move_no_cut_of_others",
    "check_sparks_watermark_drops_no_row_in_order",
    "check_sparks_watermark_drops_no_row_in_order_without_an_index",
]

_DISORDER_S = 1
_LIMITS = ((), (12,), (40, 3))  # rows of batches, in turn
_BACKFILL = "docs/guarantees.md: a Spark watermark whose delay is the out-of-orderness loses no row in a back-fill"
_TESTED = (
    "A query reads three splits from their beginning, with a max drift of 64 s and an out-of-orderness of 1 s. One "
    "split has many rows in a few seconds, and one begins 40 s later. The query runs without a row limit, with a limit "
    "of 12, and with limits of 40 and 3 in turn."
)
_PASSES = (
    "A row is in order if it lies at most 1 s behind the greatest event time before it in its split. No row in order "
    "lies at or before Spark's watermark: the greatest event time of earlier batches, less 1 s. All rows are delivered."
)
_ALIGNED = {
    "maxDrift": "64 seconds",
    "maxOutOfOrderness": f"{_DISORDER_S} second",
    "futureEventTime": "ignore",
    "idleTimeout": "1 second",
}


@rule(
    "ALIGN-27",
    "Spark's watermark drops no row in order",
    purpose="Spark knows nothing of splits. A split that is read further than the others makes their rows late, and "
    "Spark drops late rows silently.",
    tested=_TESTED,
    passes=_PASSES,
    look_at=("lookup(): the first row at or after the time, in every split", "peek(): the first row by position"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a batch that leaves rows",),
    source=_BACKFILL,
)
def check_sparks_watermark_drops_no_row_in_order(lab: Lab) -> None:
    """Read a back-fill, and look for rows that Spark drops."""
    _write_a_backfill(lab)
    _expect_nothing_dropped(lab, lab.source(**_ALIGNED))


@rule(
    "ALIGN-28",
    "Spark's watermark drops no row in order, without an index",
    purpose="A cut found by peeks may fall short of the cuts of other splits. Spark would then drop the rows that it "
    "leaves.",
    tested=f"{_TESTED} The kit hides the enumerator's lookup().",
    passes=_PASSES,
    look_at=("ALIGN-5 and ALIGN-27 first", "peek(): any position, not only the end of the last batch"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a batch that leaves rows",),
    source=f"{_BACKFILL}; enumerators.probing",
)
def check_sparks_watermark_drops_no_row_in_order_without_an_index(lab: Lab) -> None:
    """Read a back-fill without the time index, and look for rows that Spark drops."""
    _write_a_backfill(lab)
    _expect_nothing_dropped(lab, cast("Source", Blind(lab.source(**_ALIGNED))))


@rule(
    "ALIGN-29",
    "rows that are left out move no cut of others",
    purpose="Ignored rows have no usable event time. If they moved the cuts of others, Spark would drop rows of "
    "slower splits.",
    tested=f"{_TESTED} A fourth split holds only rows of the year 2200, which futureEventTime=ignore leaves out.",
    passes=f"{_PASSES} The rows of the year 2200 are delivered, too.",
    look_at=("ALIGN-27 first", "peek(): None for a split without a row to align by"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a batch that leaves rows",),
    source=_BACKFILL,
)
def check_rows_that_are_left_out_move_no_cut_of_others(lab: Lab) -> None:
    """Read a back-fill beside a split of rows from the future, and look for rows that Spark drops."""
    _write_a_backfill(lab)
    _fill(lab, [IN_THE_YEAR_2200_MS] * 12)
    _expect_nothing_dropped(lab, lab.source(**_ALIGNED))


def _write_a_backfill(lab: Lab) -> None:
    behind_s = _DISORDER_S if lab.can(Ability.DISORDER) else 0
    steady = [second - 2 * behind_s * (second % 7 == 6) for second in range(80)]  # a second behind the row before
    crowded = [*(number / 8 for number in range(12)), *range(8, 80, 8)]
    for seconds in (steady, crowded, range(40, 80, 3)):
        _fill(lab, after(*seconds))


def _fill(lab: Lab, times_ms: list[int]) -> None:
    split = lab.split()
    # Rows of one append share a position if rows have no positions of their own.
    append = split.append if lab.can(Ability.ROW_POSITIONS) else split.append_each
    append(*times_ms)


def _expect_nothing_dropped(lab: Lab, source: Source) -> None:
    in_time = {key: at_ms for key, at_ms in lab.times.items() if at_ms != IN_THE_YEAR_2200_MS}
    for limits in _LIMITS if lab.can(Ability.COUNTED_POSITIONS) else [()]:
        lab.tell(f"read it with {' and '.join(f'{rows} rows' for rows in limits) or 'any number of rows'} a batch")
        query = Query(lab, source)
        query.run_until_read(lab.rows, *(Budget(rows=rows) for rows in limits))
        query.stop()
        if len(query.batches) > 1:
            lab.saw("a batch that leaves rows")
        lab.refuse(dropped(lab.written, in_time, query.batches, _DISORDER_S * SECOND_MS))
        lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))
