"""ALIGN: splits that lose rows, disappear, come late, or have event times that cannot be right."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import cast

from tidegate.conformance.abilities import Ability
from tidegate.conformance.checks.time.bad import IN_THE_YEAR_2200_MS, expect_as_if_without, expect_watermark_within
from tidegate.conformance.lab.blind import Blind
from tidegate.conformance.lab.judging import backward, past_the_bound
from tidegate.conformance.lab.lab import SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.planning import LabClock
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.enumerators.clocks import Clocks
from tidegate.sources.source import Source

_DRIFT = {"maxDrift": "10 seconds", "idleTimeout": "1 second"}
_CLOCKS_DIFFER_S = 0.2


@rule("ALIGN-19", needs=(Ability.MANY_SPLITS, Ability.RETENTION), witness=("a loss",))
def lost_rows_stop_nobody(lab: Lab) -> None:
    slow = lab.split(*after(0, 15, 20, 40))
    ahead = lab.split(*after(1, 60))
    query = Query(lab, lab.source(failOnDataLoss="false", **_DRIFT))
    query.run_until_read([slow.rows[0], ahead.rows[0]])
    slow.trim(3)
    lab.saw("a loss")
    query.run_until_read([slow.rows[3], ahead.rows[1]])


@rule("ALIGN-20", needs=(Ability.REMOVABLE_SPLITS,), witness=("a loss",))
def a_split_that_is_gone_stops_nobody(lab: Lab) -> None:
    slow = lab.split(*after(0, 20, 40))
    ahead = lab.split(*after(1, 60))
    query = Query(lab, lab.source(failOnDataLoss="false", **_DRIFT))
    query.run_until_read([slow.rows[0], ahead.rows[0]])
    slow.remove()
    lab.saw("a loss")
    query.run_until_read(ahead.rows)


@rule("ALIGN-21", needs=(Ability.NEW_SPLITS, Ability.COUNTED_POSITIONS), witness=("a late split",))
def a_late_split_is_read_and_counted_under_admit(lab: Lab) -> None:
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


@rule("ALIGN-22", needs=(Ability.NEW_SPLITS,), witness=("a late split",))
def others_wait_for_a_late_split_under_catch_up(lab: Lab) -> None:
    query, _ = _with_late_split(lab, lateSplits="catch-up")
    first_batch = len(query.batches)
    since = {key: first_batch for key in lab.times if key not in query.delivered}
    query.run_until_read(lab.rows)
    lab.saw("a late split")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, 10 * SECOND_MS, since=since, catch_up=True))
    lab.refuse(backward(query.batches))
    lab.compare(query.delivered)


@rule("ALIGN-24", witness=("a row from the future",))
def a_row_from_the_future_stops_nobody_under_ignore(lab: Lab) -> None:
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


@rule("ALIGN-25", witness=("a row that is held",))
def a_row_from_the_future_is_held_alone(lab: Lab) -> None:
    split = lab.split(*after(0, 2), IN_THE_YEAR_2200_MS, *after(4, 6, 8))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34))
    held, waiting = split.keys[2], split.keys[3:]
    source = lab.source(futureEventTime="hold", **_DRIFT)
    for opened in (source, cast("Source", Blind(source))):
        query = Query(lab, opened)
        query.run_until_read([row for row in lab.rows if row.key not in {held, *waiting}])
        query.pass_time(5)
        lab.saw("a row that is held")
        lab.expect(held not in query.delivered, f"the row {held} is delivered before its time has come")
        expect_as_if_without(lab, query, IN_THE_YEAR_2200_MS, waiting)
        expect_watermark_within(lab, query, *after(0, 34))
        query.stop()


@rule("ALIGN-26", witness=("a row that came",))
def a_row_that_is_held_comes_once_its_time_has_come(lab: Lab) -> None:
    due_s = time.time() + 1.5
    split = lab.split(round(due_s * 1000) - 2 * SECOND_MS, round(due_s * 1000))
    query = Query(lab, lab.source(futureEventTime="hold", maxFutureSkew="0 ms"), clock=_OfToday())
    query.run_until_read(split.rows)
    early_s = due_s - time.time()
    lab.expect(early_s < _CLOCKS_DIFFER_S, f"the row {split.keys[1]} is delivered {early_s:.1f} s before its time")
    lab.saw("a row that came")
    lab.compare(query.delivered)


class _OfToday(LabClock):
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
