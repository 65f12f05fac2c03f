"""ALIGN: how far a batch reads, with any splits, budget and time index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.blind import Blind
from tidegate.conformance.lab.judging import backward, late, past_the_bound, pauses, split_of, starved
from tidegate.conformance.lab.lab import SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
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


@rule("ALIGN-2", witness=("a row after the gap",))
def a_gap_in_time_stops_nobody(lab: Lab) -> None:
    lab.split(*after(0, 5, 3_600, 3_605))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(2, 3_601, 7_200))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    lab.saw("a row after the gap")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    lab.compare(query.delivered)


@rule("ALIGN-3", needs=(Ability.MANY_SPLITS,), witness=("a pause",))
def many_splits_are_kept_together(lab: Lab) -> None:
    for number in range(20):
        lab.split(*after(number * 1.5, 40 + number))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    if any(pauses(lab.written, query.batches)):
        lab.saw("a pause")
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


@rule("ALIGN-5", witness=("a batch that leaves rows",))
def peek_alone_is_enough_to_align(lab: Lab) -> None:
    lab.split(*after(*range(0, 45, 3)))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(*range(25, 50, 5)))
    query = Query(lab, cast("Source", Blind(lab.source(**_DRIFT))))
    query.run_until_read(lab.rows)
    if len(query.batches) > 1:
        lab.saw("a batch that leaves rows")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    lab.compare(query.delivered)


@rule("ALIGN-6", needs=(Ability.MANY_SPLITS,), witness=("a pause", "a restart"))
def a_restart_stays_aligned(lab: Lab) -> None:
    lab.split(*after(*range(0, 40, 5)))
    lab.split(*after(*range(30, 50, 5)))
    query = Query(lab, lab.source(**_DRIFT))
    wanted = {row.key for row in lab.rows}

    def killed() -> bool:
        if query.plan():
            query.crash()
            query.start()
            lab.saw("a restart")
        return wanted <= set(query.delivered)

    query.run_until(killed, f"{len(wanted)} rows were written and not all delivered")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    lab.refuse(backward(query.batches))
    if any(pauses(lab.written, query.batches)):
        lab.saw("a pause")
    lab.compare(query.delivered)


@rule("ALIGN-7", needs=(Ability.ROW_POSITIONS, Ability.COUNTED_POSITIONS), witness=("a batch that leaves rows",))
def a_row_limit_is_held(lab: Lab) -> None:
    lab.split().append(*after(0, 1, 2, 3, *[10] * 9, 11))
    if lab.can(Ability.MANY_SPLITS):
        lab.split().append(*after(0, 2, *[10] * 3, 40))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows, Budget(rows=4))
    for batch in query.batches:
        lab.expect(len(batch.keys) <= 4, f"batch {batch.number} has {len(batch.keys)} rows, but 4 are allowed")
        lab.saw("a batch that leaves rows")
    lab.compare(query.delivered)


@rule(
    "ALIGN-8",
    needs=(Ability.MANY_SPLITS, Ability.ROW_POSITIONS, Ability.COUNTED_POSITIONS),
    witness=("a batch that leaves rows",),
)
def no_split_is_starved_by_a_row_limit(lab: Lab) -> None:
    _write_large_and_small(lab)
    _expect_fair(lab, _DRIFT)


@rule("ALIGN-9", needs=(Ability.COUNTED_POSITIONS,), witness=("a batch that leaves rows",))
def without_alignment_everything_is_read(lab: Lab) -> None:
    if lab.can(Ability.ROW_POSITIONS) and lab.can(Ability.MANY_SPLITS):
        _write_large_and_small(lab)
        _expect_fair(lab, {"alignment": "none"})
        return
    lab.split(*after(0, 5, 600))
    query = Query(lab, lab.source(alignment="none"))
    query.run_until_read(lab.rows)
    lab.saw("a batch that leaves rows")
    lab.refuse(late(lab.times, query.batches))
    lab.compare(query.delivered)


def _write_in_disorder(lab: Lab) -> None:
    lab.split(*after(0, 4, 1, 5, 9, 5.5, 12, 8, 10, 14, 18, 15, 20))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(12, 16, 13, 22, 18, 26))


def _write_large_and_small(lab: Lab) -> None:
    for size in (60, 1, 4):
        lab.split().append(*after(*[0] * size))


def _expect_fair(lab: Lab, options: Mapping[str, str]) -> None:
    query = Query(lab, lab.source(**options))
    query.run_until_read(lab.rows, Budget(rows=6))
    if len(query.batches) > 1:
        lab.saw("a batch that leaves rows")
    lab.refuse(starved(lab.written, lab.times, query.batches, patience=3))
    lab.refuse(late(lab.times, query.batches))
    lab.compare(query.delivered)


def _witness_pauses(lab: Lab, query: Query) -> None:
    for number, split in pauses(lab.written, query.batches):
        lab.saw("a pause")
        if any(split_of(key) == split for batch in query.batches[number:] for key in batch.keys):
            lab.saw("a resumption")
