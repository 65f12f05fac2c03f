"""ALIGN: splits that lose rows, disappear, come late, or have event times that cannot be right."""

from __future__ import annotations

import time
from dataclasses import replace

from tidegate.conformance.abilities import Ability
from tidegate.conformance.checks.time.bad import IN_THE_YEAR_2200_MS, expect_as_if_without, expect_watermark_within
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.judging import backward, past_the_bound
from tidegate.conformance.lab.lab import SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.planning import Clock
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Level
from tidegate.enumerators.clocks import Clocks
from tidegate.errors import TidegateError

__all__ = [
    "check_a_late_split_ends_the_query_under_fail",
    "check_a_late_split_is_read_and_counted_under_admit",
    "check_a_row_from_the_future_is_held_alone",
    "check_a_row_from_the_future_stops_nobody_under_ignore",
    "check_a_row_that_is_held_comes_once_its_time_has_come",
    "check_a_split_that_is_gone_stops_nobody",
    "check_lost_rows_stop_nobody",
    "check_others_wait_for_a_late_split_under_catch_up",
]

_DRIFT = {"maxDrift": "10 seconds", "idleTimeout": "1 second"}
_CLOCKS_DIFFER_S = 0.2
_LATE = "sources.contract.Source: late_splits"
_FUTURE = "sources.contract.Source: future_event_time"
_LOSS = "sources.contract.Source: fail_on_data_loss"


@rule(
    "ALIGN-19",
    "lost rows stop nobody",
    purpose="With failOnDataLoss=false the user wants the remaining rows. A split that waits for deleted rows hangs "
    "the query.",
    tested="Two of the three unread rows of the slower split are deleted. The other split is a minute ahead.",
    passes="All remaining rows are delivered.",
    look_at=("extents(): begin, which moves when rows are deleted", "peek(): a position that is gone"),
    needs=(Ability.MANY_SPLITS, Ability.RETENTION),
    witness=("a loss",),
    source=_LOSS,
)
def check_lost_rows_stop_nobody(lab: Lab) -> None:
    """Delete unread rows of the slower of two splits."""
    slow = lab.split(*after(0, 15, 20, 40))
    ahead = lab.split(*after(1, 60))
    query = Query(lab, lab.source(failOnDataLoss="false", **_DRIFT))
    query.run_until_read([slow.rows[0], ahead.rows[0]])
    slow.trim(3)
    lab.saw("a loss")
    query.run_until_read([slow.rows[3], ahead.rows[1]])


@rule(
    "ALIGN-20",
    "a split that is gone stops nobody",
    purpose="With failOnDataLoss=false the user wants the remaining rows. No split should wait for a deleted one.",
    tested="A query reads the first row of the slower of two splits. Then this split is deleted. The other is a "
    "minute ahead.",
    passes="All rows of the other split are delivered.",
    look_at=("discover(): leave out the deleted split", "extents(): leave out the deleted split, and raise no error"),
    needs=(Ability.REMOVABLE_SPLITS,),
    witness=("a loss",),
    source=_LOSS,
)
def check_a_split_that_is_gone_stops_nobody(lab: Lab) -> None:
    """Delete the slower of two splits."""
    slow = lab.split(*after(0, 20, 40))
    ahead = lab.split(*after(1, 60))
    query = Query(lab, lab.source(failOnDataLoss="false", **_DRIFT))
    query.run_until_read([slow.rows[0], ahead.rows[0]])
    slow.remove()
    lab.saw("a loss")
    query.run_until_read(ahead.rows)


@rule(
    "ALIGN-21",
    "a late split is read at once and counted under admit",
    purpose="Spark drops late rows, so the progress must show them. No other split may wait for a late one.",
    tested="With lateSplits=admit, a split with rows behind the watermark appears, and a split with rows ahead of it.",
    passes="All rows are delivered. The watermark does not go back. The progress counts the late rows.",
    look_at=("starts() with first=False", "peek() of a split that was just discovered"),
    needs=(Ability.NEW_SPLITS, Ability.COUNTED_POSITIONS),
    witness=("a late split",),
    source=_LATE,
)
def check_a_late_split_is_read_and_counted_under_admit(lab: Lab) -> None:
    """Let a split with old rows appear."""
    query, late = _with_late_split(lab, lateSplits="admit")
    query.start()
    counted = 0

    def all_are_read() -> bool:
        nonlocal counted
        counted = max(counted, int((query.running.source_progress() or {}).get("lateRowsTotal", 0)))
        return set(lab.times) <= set(query.delivered)

    query.run_until(all_are_read, f"{len(lab.times)} rows were written and not all delivered")
    lab.saw("a late split")
    lab.refuse(backward(query.batches))
    lab.compare(query.delivered)
    expected = 3 if lab.can(Ability.ROW_POSITIONS) else max(1, min(counted, 3))
    lab.expect(
        counted == expected,
        f"the progress counts {counted} late rows, but {', '.join(late.keys[:3])} lie behind the watermark",
    )


@rule(
    "ALIGN-22",
    "the others wait for a late split under catch-up",
    purpose="The user wants as few late rows as possible, so no split may run ahead of a late one.",
    tested="With lateSplits=catch-up, a split with rows behind the watermark appears, and a split with rows ahead of "
    "it.",
    passes="No row is read 10 s or more past the oldest unread row, late rows included. All rows are delivered. The "
    "watermark does not go back.",
    look_at=("peek() of a split that was just discovered", "lookup() of such a split"),
    needs=(Ability.NEW_SPLITS,),
    witness=("a late split",),
    source=_LATE,
)
def check_others_wait_for_a_late_split_under_catch_up(lab: Lab) -> None:
    """Let a split with old rows appear, and the others wait for it."""
    query, _ = _with_late_split(lab, lateSplits="catch-up")
    first_batch = len(query.batches)
    since = {key: first_batch for key in lab.times if key not in query.delivered}
    query.run_until_read(lab.rows)
    lab.saw("a late split")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, 10 * SECOND_MS, since=since, catch_up=True))
    lab.refuse(backward(query.batches))
    lab.compare(query.delivered)


@rule(
    "ALIGN-23",
    "a late split ends the query under fail",
    level=Level.SHOULD,
    purpose="The user wants no late rows at all. A query that continues has lost some.",
    tested="With lateSplits=fail, a split with rows behind the watermark appears.",
    passes="The query ends with a TidegateError before it has delivered all rows of the split.",
    look_at=("peek() of a split that was just discovered",),
    needs=(Ability.NEW_SPLITS,),
    witness=("a late split",),
    source=_LATE,
)
def check_a_late_split_ends_the_query_under_fail(lab: Lab) -> None:
    """Let a split with old rows appear, which must end the query."""
    query, late = _with_late_split(lab, lateSplits="fail")
    try:
        query.run_until_read(late.rows)
    except TidegateError as refusal:
        lab.tell(f"the query ends: {type(refusal).__name__}")
        lab.saw("a late split")
        return
    raise lab.fail(f"the row {late.keys[0]} comes behind the watermark with lateSplits=fail, and the query goes on")


@rule(
    "ALIGN-24",
    "a row from the future stops nobody under ignore",
    purpose="A row from a wrong clock would stop its split. It would also move the watermark so far that all other "
    "rows are late.",
    tested="With futureEventTime=ignore, rows of the year 2200 stand between and after others.",
    passes="All rows are delivered. None of the other rows is late, or read past the bound. The watermark stays among "
    "their event times.",
    look_at=(
        "peek(): step over rows from the future",
        "latest(): do not count them",
        "figures of a file or page that count them",
    ),
    witness=("a row from the future",),
    source=_FUTURE,
)
def check_a_row_from_the_future_stops_nobody_under_ignore(lab: Lab) -> None:
    """Ignore rows of the year 2200."""
    lab.split(*after(0), IN_THE_YEAR_2200_MS, *after(12, 30), IN_THE_YEAR_2200_MS)
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34), IN_THE_YEAR_2200_MS)
    query = Query(lab, lab.source(futureEventTime="ignore", maxDrift="10 seconds"))
    query.run_until_read(lab.rows)
    query.rest()
    lab.saw("a row from the future")
    lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))
    expect_as_if_without(lab, query, IN_THE_YEAR_2200_MS)
    expect_watermark_within(lab, query, *after(0, 34))


@rule(
    "ALIGN-25",
    "a row from the future is held alone",
    purpose="A row from the future must wait until its time has come. The rows of other splits must not wait for it.",
    tested="With futureEventTime=hold, a split ends with a row of the year 2200, and other splits continue.",
    passes="All other rows are delivered, and the row from the future is not. None of the others is late, or read "
    "past the bound. The watermark stays among their event times.",
    look_at=("peek(): count the row by its time under hold", "latest(): do not count the row, because it is unread"),
    witness=("a row that is held",),
    source=_FUTURE,
)
def check_a_row_from_the_future_is_held_alone(lab: Lab) -> None:
    """Hold a row of the year 2200."""
    held = lab.split(*after(0, 12), IN_THE_YEAR_2200_MS)
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34))
    query = Query(lab, lab.source(futureEventTime="hold", **_DRIFT))
    query.run_until_read([row for row in lab.rows if row.event_time_ms != IN_THE_YEAR_2200_MS])
    query.pass_time(5)
    lab.saw("a row that is held")
    lab.expect(held.keys[2] not in query.delivered, f"the row {held.keys[2]} is delivered before its time has come")
    expect_as_if_without(lab, query, IN_THE_YEAR_2200_MS)
    expect_watermark_within(lab, query, *after(0, 34))


@rule(
    "ALIGN-26",
    "a row that is held comes once its time has come",
    level=Level.SHOULD,
    purpose="A row that is held for too long becomes late. A row that is held too briefly was not held at all.",
    tested="With futureEventTime=hold and maxFutureSkew=0 ms, a row is 1.5 s ahead of the clock.",
    passes="The row is delivered, and not more than 0.2 s before its time.",
    look_at=("wall_clock(): the present time, in seconds since 1970", "the unit of event times"),
    witness=("a row that came",),
    source=f"{_FUTURE}; enumerators.contract.SupportsClock",
)
def check_a_row_that_is_held_comes_once_its_time_has_come(lab: Lab) -> None:
    """Hold a row for a second and a half of real time."""
    due_s = time.time() + 1.5
    split = lab.split(round(due_s * 1000) - 2 * SECOND_MS, round(due_s * 1000))
    query = Query(lab, lab.source(futureEventTime="hold", maxFutureSkew="0 ms"), clock=_OfToday())
    query.run_until_read(split.rows)
    early_s = due_s - time.time()
    lab.expect(early_s < _CLOCKS_DIFFER_S, f"the row {split.keys[1]} is delivered {early_s:.1f} s before its time")
    lab.saw("a row that came")
    lab.compare(query.delivered)


class _OfToday(Clock):
    """A clock with the real time of day."""

    @property
    def clocks(self) -> Clocks:
        return replace(super().clocks, wall=time.time)


def _with_late_split(lab: Lab, **options: str) -> tuple[Query, Split]:
    """Return a stopped query that has read up to +61 s, and a new split with older rows.

    Another new split continues from there.
    """
    first = lab.split(*after(60, 61))
    query = Query(lab, lab.source(**_DRIFT, **options))
    query.run_until_read(first.rows)
    query.rest()
    query.stop()  # so that one discovery finds all rows that are written now
    late = lab.split(*after(1, 20, 40, 61.5))
    lab.split(*after(62, 69, 90))
    return query, late
