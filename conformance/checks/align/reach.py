"""ALIGN: how far a batch reads, with any splits, budget, time index and rows from the future."""

from __future__ import annotations

from typing import cast

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.blind import Blind
from tidegate.conformance.lab.judging import late, past_the_bound, pauses, split_of
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS, SECOND_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import SupportsCost
from tidegate.sources.source import Source

_DRIFT_MS = 10 * SECOND_MS
# A split that is read to its end holds back the others for the idle timeout, which these rules do not test.
_DRIFT = {"maxDrift": "10 seconds", "idleTimeout": "1 second"}


@rule("ALIGN-1", needs=(Ability.MANY_SPLITS,), witness=("a pause", "a resumption"))
def no_row_past_the_bound_is_read(lab: Lab) -> None:
    lab.split(*after(*range(0, 80, 5)))
    lab.split(*after(*range(60, 100, 5)))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    _witness_pauses(lab, query)
    lab.compare(query.delivered)


@rule("ALIGN-4", needs=(Ability.DISORDER,), witness=("a batch that leaves rows",))
def a_split_in_disorder_is_cut_at_the_bound(lab: Lab) -> None:
    _write_in_disorder(lab)
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    if len(query.batches) > 1:
        lab.saw("a batch that leaves rows")
    disorder_ms = 0 if lab.can(Ability.TIME_INDEX) else 4 * SECOND_MS
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS, disorder_ms=disorder_ms))
    lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))


@rule("ALIGN-7", witness=("a batch that leaves rows",))
def limits_of_batches_are_held(lab: Lab) -> None:
    lab.split().append(*after(0, 1, 2, 3, *[10] * 9, 11))
    if lab.can(Ability.MANY_SPLITS):
        lab.split().append(*after(0, 2, *[10] * 3, 40))
    source = lab.source(**_DRIFT)
    limits = [Budget(rows=4)]
    if isinstance(lab.enumerator(source), SupportsCost):
        limits += [Budget(bytes=1), Budget(files=1)]
    for limit in limits:
        lab.tell(f"read it with {limit}")
        query = Query(lab, source)
        query.run_until_read(lab.rows, limit)
        most = max(len(batch.keys) for batch in query.batches)
        if len(query.batches) > 1:
            lab.saw("a batch that leaves rows")
        counted = limit.rows is not None and lab.can(Ability.ROW_POSITIONS) and lab.can(Ability.COUNTED_POSITIONS)
        lab.expect(not counted or most <= 4, f"a batch has {most} rows, but 4 are allowed")
        lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))
        query.stop()


@rule("ALIGN-25", witness=("a row that is held",))
def a_row_from_the_future_is_held_alone(lab: Lab) -> None:
    split = lab.split(*after(0, 2), IN_THE_YEAR_2200_MS, *after(4, 6, 8))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34))
    held, waiting = split.keys[2], split.keys[3:]
    times = {key: at_ms for key, at_ms in lab.times.items() if key not in {held, *waiting}}
    source = lab.source(futureEventTime="hold", **_DRIFT)
    for opened in (source, cast("Source", Blind(source))):
        query = Query(lab, opened)
        query.run_until_read([row for row in lab.rows if row.key in times])
        query.pass_time(5)
        lab.saw("a row that is held")
        lab.expect(held not in query.delivered, f"the row {held} is delivered before its time has come")
        lab.refuse(past_the_bound(lab.written, times, query.batches, _DRIFT_MS))
        lab.refuse(late(times, query.batches))
        watermark_ms = query.batches[-1].watermark_ms
        lab.expect(
            watermark_ms is not None and min(times.values()) - 1 <= watermark_ms < max(times.values()),
            f"the watermark is {said(watermark_ms)}, but the rows to align by are from {said(min(times.values()))} to "
            f"{said(max(times.values()))}",
        )
        query.stop()


def _write_in_disorder(lab: Lab) -> None:
    lab.split(*after(0, 4, 1, 5, 9, 5.5, 12, 8, 10, 14, 18, 15, 20))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(12, 16, 13, 22, 18, 26))


def _witness_pauses(lab: Lab, query: Query) -> None:
    for number, split in pauses(lab.written, query.batches):
        lab.saw("a pause")
        if any(split_of(key) == split for batch in query.batches[number:] for key in batch.keys):
            lab.saw("a resumption")
