"""ALIGN: batches under Spark's own watermark: the greatest event time of all splits, less a delay."""

from __future__ import annotations

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.judging import dropped
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.sources.source import Source

_DISORDER_S = 1
_LIMITS = ((), (12,), (40, 3))  # rows of batches, in turn
_ALIGNED = {
    "maxDrift": "64 seconds",
    "maxOutOfOrderness": f"{_DISORDER_S} second",
    "futureEventTime": "ignore",
    "idleTimeout": "1 second",
}


@rule("ALIGN-27", needs=(Ability.MANY_SPLITS,), witness=("a batch that leaves rows",))
def sparks_watermark_drops_no_row_in_order(lab: Lab) -> None:
    _write_a_backfill(lab)
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
