"""ALIGN: how far a batch reads, with any splits, budget, and rows from the future.  WHOLE: lives of a query."""

from __future__ import annotations

from tidegate.alignment.budget import Budget
from tidegate.alignment.index import SupportsHold
from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.judging import dropped
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS, SECOND_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Tier, rule
from tidegate.conformance.scenario import Scenario
from tidegate.enumerators.contract import SupportsCost
from tidegate.sources.source import Source

# A split that is read to its end holds back the others for the idle timeout, which these rules do not test.
_DRIFT = {"maxDrift": "10 seconds", "idleTimeout": "1 second"}
_DISORDER_S = 1
_LIMITS = ((), (12,), (40, 3))  # rows of batches, in turn
_ALIGNED = {
    "maxDrift": "64 seconds",
    "maxOutOfOrderness": f"{_DISORDER_S} second",
    "idleTimeout": "1 second",
}
_SECONDS = 8.0  # of random lives
_DRIFTS_S = (10, 1, 60, None)


@rule("ALIGN-1", needs=(Ability.MANY_SPLITS,), witness=("a pause",))
def no_row_past_the_bound_is_read(lab: Lab) -> None:
    with Scenario.of(lab, max_drift_s=10) as scenario:
        scenario.new_split(*[5] * 16)
        scenario.new_split(60, *[5] * 8)
        scenario.end()
        lab.seen |= scenario.happened


@rule("ALIGN-25", witness=("a row that is held",))
def a_row_from_the_future_is_held_alone(lab: Lab) -> None:
    split = lab.split(*after(0, 2), IN_THE_YEAR_2200_MS, *after(4, 6, 8))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34))
    held, waiting = split.keys[2], split.keys[3:]
    times = {key: at_ms for key, at_ms in lab.times.items() if key not in {held, *waiting}}
    source = lab.source(futureEventTime="hold", **_DRIFT)
    _expect_found(lab, source, held)
    query = Query(lab, source)
    query.run_until_read([row for row in lab.rows if row.key in times])
    query.pass_time(5)
    lab.saw("a row that is held")
    lab.expect(held not in query.delivered, f"the row {held} is delivered before its time has come")
    watermark_ms = query.batches[-1].watermark_ms
    lab.expect(
        watermark_ms is not None and min(times.values()) - 1 <= watermark_ms < max(times.values()),
        f"the watermark is {said(watermark_ms)}, but the rows to align by are from {said(min(times.values()))} to "
        f"{said(max(times.values()))}",
    )


def _expect_found(lab: Lab, source: Source, held: str) -> None:
    """Raise ConformanceError unless held() finds a row from the future, and no other."""
    enumerator = lab.enumerator(source)
    if isinstance(enumerator, SupportsHold):
        for split, rows in lab.placed(source, enumerator).items():
            (whole,) = lab.ranges({split: enumerator.extents([split])[split]})
            head = enumerator.held([whole], lab.horizon)[split]
            due = next((at for at, keys in rows.items() if held in keys), None)
            found = None if head is None else head.position
            lab.expect(found == due, f"held() of {whole} finds a row at {found}, but the one to be held is at {due}")
    enumerator.close()


@rule("ALIGN-27", needs=(Ability.MANY_SPLITS,), witness=("a batch that leaves rows",))
def sparks_watermark_drops_no_row_in_order(lab: Lab) -> None:
    _write_a_backfill(lab)
    source = lab.source(**_ALIGNED)
    has_cost = isinstance(lab.enumerator(source), SupportsCost)
    for limits in _LIMITS if lab.can(Ability.COUNTED_POSITIONS) else [()]:
        lab.tell(f"read it with {' and '.join(f'{rows} rows' for rows in limits) or 'any number of rows'} a batch")
        query = Query(lab, source)
        query.run_until_read(lab.rows, *(Budget(rows=n, files=n if has_cost else None) for n in limits))
        query.stop()
        if len(query.batches) > 1:
            lab.saw("a batch that leaves rows")
        lab.refuse(dropped(lab.written, lab.times, query.batches, _DISORDER_S * SECOND_MS))
        lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))


def _write_a_backfill(lab: Lab) -> None:
    behind_s = _DISORDER_S if lab.can(Ability.DISORDER) else 0
    steady = [second - 2 * behind_s * (second % 7 == 6) for second in range(80)]  # a second behind the row before
    crowded = [*(number / 8 for number in range(12)), *range(8, 80, 8)]
    for seconds in (steady, crowded, range(40, 80, 3)):
        split = lab.split()
        # Rows of one append share a position if rows have no positions of their own.
        append = split.append if lab.can(Ability.ROW_POSITIONS) else split.append_each
        append(*after(*seconds))


@rule(
    "WHOLE-1", tier=Tier.STATEFUL, witness=("a batch read again", "a crash after a commit", "a bounded run", "a pause")
)
def whatever_happens_every_row_comes_once_and_splits_stay_aligned(lab: Lab) -> None:
    try:
        from tidegate.conformance.machine import live_many_lives
    except ModuleNotFoundError:
        raise SkippedError("Hypothesis is not installed: pip install 'tidegate[conformance]'") from None
    live_many_lives(lab, _DRIFTS_S, _SECONDS)
