"""TIME: rows whose event time is missing, before 1970, or in the future."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.judging import late, past_the_bound
from tidegate.conformance.lab.lab import SECOND_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.errors import TidegateError

__all__ = ["IN_THE_YEAR_2200_MS", "expect_as_if_without", "expect_watermark_within"]

_BEFORE_1970_MS = -86_400 * SECOND_MS
IN_THE_YEAR_2200_MS = 7_258_118_400 * SECOND_MS


@rule("TIME-18", needs=(Ability.MISSING_TIMES,), witness=("a refusal",))
def a_row_without_a_time_ends_the_query_under_fail(lab: Lab) -> None:
    _refuse(lab, None, badEventTime="fail")


@rule("TIME-19", needs=(Ability.MISSING_TIMES,), witness=("rows that are left out",))
def a_row_without_a_time_is_delivered_and_left_out_under_ignore(lab: Lab) -> None:
    _leave_out(lab, None)


@rule("TIME-20", needs=(Ability.MISSING_TIMES,), witness=("a row that counts by its own timestamp, or is refused",))
def a_row_without_a_time_takes_its_own_timestamp(lab: Lab) -> None:
    _stand_in(lab, None)


@rule("TIME-21", needs=(Ability.NEGATIVE_TIMES,), witness=("a row that is refused, or counts",))
def a_row_before_1970_is_refused_or_counts_under_fail(lab: Lab) -> None:
    lab.split(_BEFORE_1970_MS, *after(0, 12))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14))
    query = Query(lab, lab.source(badEventTime="fail", maxDrift="10 seconds", idleTimeout="1 second"))
    try:
        query.run_until_read(lab.rows)
    except TidegateError as refusal:
        lab.tell(f"the query ends: {type(refusal).__name__}")
    else:
        lab.refuse(past_the_bound(lab.written, lab.times, query.batches, 10 * SECOND_MS))
        lab.refuse(late(lab.times, query.batches))
        lab.compare(query.delivered)
    lab.saw("a row that is refused, or counts")


@rule("TIME-22", needs=(Ability.NEGATIVE_TIMES,), witness=("rows that are left out",))
def a_row_before_1970_is_delivered_and_left_out_under_ignore(lab: Lab) -> None:
    _leave_out(lab, _BEFORE_1970_MS)


@rule("TIME-23", needs=(Ability.NEGATIVE_TIMES,), witness=("a row that counts by its own timestamp, or is refused",))
def a_row_before_1970_takes_its_own_timestamp(lab: Lab) -> None:
    _stand_in(lab, _BEFORE_1970_MS)


@rule("TIME-24", witness=("a refusal",))
def a_row_from_the_future_ends_the_query_under_fail(lab: Lab) -> None:
    _refuse(lab, IN_THE_YEAR_2200_MS, futureEventTime="fail")


def _refuse(lab: Lab, bad_ms: int | None, **options: str) -> None:
    """Expect a bad row to end the query."""
    split = lab.split(*after(0, 1), bad_ms, *after(2))
    bad = split.keys[2]
    try:
        query = Query(lab, lab.source(**options))
        query.run_until(
            lambda: bad in query.delivered, f"the row {bad} is not delivered, but the query does not end either"
        )
    except TidegateError as refusal:
        lab.tell(f"the query ends: {type(refusal).__name__}")
        lab.saw("a refusal")
        return
    written = ", ".join(f"{name}={value}" for name, value in options.items())
    raise lab.fail(f"the row {bad} is delivered with {written}, and the query goes on")


def _leave_out(lab: Lab, bad_ms: int | None) -> None:
    """Expect bad rows to be delivered, and to change nothing for the others."""
    lab.split(bad_ms, *after(0), bad_ms, *after(12, 30), bad_ms)
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34), bad_ms)
        lab.split(bad_ms)
    query = Query(lab, lab.source(badEventTime="ignore", maxDrift="10 seconds"))
    query.run_until_read(lab.rows)
    query.rest()
    lab.saw("rows that are left out")
    lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))
    expect_as_if_without(lab, query, bad_ms)
    expect_watermark_within(lab, query, after(0)[0], after(34)[0])


def _stand_in(lab: Lab, bad_ms: int | None) -> None:
    """Expect a bad row to be delivered by another time, or to be refused."""
    lab.split(*after(0, 12, 30), bad_ms)
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34))
    try:
        query = Query(lab, lab.source(badEventTime="record-timestamp", maxDrift="10 seconds", idleTimeout="1 second"))
        query.run_until_read(lab.rows)
    except TidegateError as refusal:
        lab.tell(f"the query ends: {type(refusal).__name__}")
    else:
        lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))
        expect_as_if_without(lab, query, bad_ms)
    lab.saw("a row that counts by its own timestamp, or is refused")


def expect_as_if_without(lab: Lab, query: Query, bad_ms: int | None, waiting: Collection[str] = ()) -> None:
    """Expect all other rows to be read within a max drift of 10 s, and none of them late.

    waiting: the keys of rows that need not be read, because they stand behind a bad one.
    """
    good = {key: at_ms for key, at_ms in lab.times.items() if at_ms != bad_ms and key not in waiting}
    lab.refuse(past_the_bound(lab.written, good, query.batches, 10 * SECOND_MS))
    lab.refuse(late(good, query.batches))


def expect_watermark_within(lab: Lab, query: Query, first_ms: int, last_ms: int) -> None:
    """Expect the watermark to be among the rows to align by, from the first to the last of them."""
    watermark_ms = query.batches[-1].watermark_ms
    lab.expect(
        watermark_ms is not None and first_ms - 1 <= watermark_ms < last_ms,
        f"the watermark is {said(watermark_ms)}, but the rows to align by are from {said(first_ms)} to {said(last_ms)}",
    )
