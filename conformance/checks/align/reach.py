"""ALIGN: how far a batch reads, with any splits, budget and time index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.blind import Blind
from tidegate.conformance.lab.judging import backward, late, past_the_bound, pauses, split_of, starved
from tidegate.conformance.lab.lab import SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.sources.source import Source

__all__ = [
    "check_a_gap_in_time_stops_nobody",
    "check_a_restart_stays_aligned",
    "check_a_row_limit_is_held",
    "check_a_split_in_disorder_is_cut_at_the_bound",
    "check_many_splits_are_kept_together",
    "check_no_row_past_the_bound_is_read",
    "check_no_split_is_starved_by_a_row_limit",
    "check_peek_alone_is_enough_to_align",
    "check_without_alignment_everything_is_read",
]

_DRIFT_MS = 10 * SECOND_MS
# A split that is read to its end holds back the others for the idle timeout, which these rules do not test.
_DRIFT = {"maxDrift": "10 seconds", "idleTimeout": "1 second"}
_ALIGNMENT = "FLIP-182, FLIP-217"
_RULES = "docs/planning.md: The rules of a plan"


@rule(
    "ALIGN-1",
    "no row past the bound is read",
    purpose="A row that is read too early moves Spark's watermark, and makes the rows of all other splits late.",
    tested="One split is 60 s behind another. A query reads both with a max drift of 10 s.",
    passes="In each batch, every row lies less than 10 s past the oldest row that was unread before the batch. The "
    "split that is ahead waits, and then continues.",
    look_at=("lookup(): the first row at or after the time", "peek(): the first row at or after the position"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a pause", "a resumption"),
    source=_ALIGNMENT,
)
def check_no_row_past_the_bound_is_read(lab: Lab) -> None:
    """Read two splits that are a minute apart."""
    lab.split(*after(*range(0, 80, 5)))
    lab.split(*after(*range(60, 100, 5)))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    _witness_pauses(lab, query)
    lab.compare(query.delivered)


@rule(
    "ALIGN-2",
    "a gap in time stops nobody",
    purpose="A night without rows is longer than any max drift. A query that waits for rows of the night hangs "
    "forever.",
    tested="All splits have a gap of an hour. A query reads them with a max drift of 10 s.",
    passes="All rows are delivered, and none is read past the bound.",
    look_at=(
        "peek(): the first row at or after the position, however much later its time is",
        "lookup(): the first row at or after the time, however much later its time is",
    ),
    witness=("a row after the gap",),
    source=_RULES,
)
def check_a_gap_in_time_stops_nobody(lab: Lab) -> None:
    """Read over a gap that is longer than the max drift."""
    lab.split(*after(0, 5, 3_600, 3_605))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(2, 3_601, 7_200))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    lab.saw("a row after the gap")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    lab.compare(query.delivered)


@rule(
    "ALIGN-3",
    "many splits are kept together",
    purpose="The answer for many splits often comes in pages. It is easy to forget the pages after the first.",
    tested="Each of 20 splits begins 1.5 s later than the one before. A query reads them with a max drift of 10 s.",
    passes="All rows of all splits are delivered, and none is read past the bound.",
    look_at=("limits of one request: splits, keys, or rows of the answer",),
    needs=(Ability.MANY_SPLITS,),
    witness=("a pause",),
    source="SupportsPeek.peek: for many splits at once",
)
def check_many_splits_are_kept_together(lab: Lab) -> None:
    """Read 20 splits."""
    for number in range(20):
        lab.split(*after(number * 1.5, 40 + number))
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    if any(pauses(lab.written, query.batches)):
        lab.saw("a pause")
    lab.compare(query.delivered)


@rule(
    "ALIGN-4",
    "a split in disorder is cut at the bound",
    purpose="Rows that follow a row past the bound may wait. Rows past the bound must not be read.",
    tested="Rows lie up to 4 s behind earlier rows of their split. A query reads them with a max drift of 10 s.",
    passes="All rows are delivered. With a time index, no row is read past the bound. Without one, no row is read 4 s "
    "or more past it.",
    look_at=("lookup(): the first row by position of all rows at or after the time",),
    needs=(Ability.DISORDER,),
    witness=("a batch that leaves rows",),
    source=_RULES,
)
def check_a_split_in_disorder_is_cut_at_the_bound(lab: Lab) -> None:
    """Read splits that are in disorder."""
    _write_in_disorder(lab)
    query = Query(lab, lab.source(**_DRIFT))
    query.run_until_read(lab.rows)
    if len(query.batches) > 1:
        lab.saw("a batch that leaves rows")
    disorder_ms = 0 if lab.can(Ability.TIME_INDEX) else 4 * SECOND_MS
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS, disorder_ms=disorder_ms))
    lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))


@rule(
    "ALIGN-5",
    "peek alone is enough to align",
    purpose="Where a split is blind, the planner searches by peeks, as it does without a time index.",
    tested="The kit hides the enumerator's lookup(). A query reads splits in order with a max drift of 10 s.",
    passes="All rows are delivered, and none is read past the bound.",
    look_at=("peek(): any position, not only the end of the last batch",),
    witness=("a batch that leaves rows",),
    source="enumerators.probing",
)
def check_peek_alone_is_enough_to_align(lab: Lab) -> None:
    """Read without the time index."""
    lab.split(*after(*range(0, 45, 3)))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(*range(25, 50, 5)))
    query = Query(lab, cast("Source", Blind(lab.source(**_DRIFT))))
    query.run_until_read(lab.rows)
    if len(query.batches) > 1:
        lab.saw("a batch that leaves rows")
    lab.refuse(past_the_bound(lab.written, lab.times, query.batches, _DRIFT_MS))
    lab.compare(query.delivered)


@rule(
    "ALIGN-6",
    "a restart stays aligned",
    purpose="After a restart, a paused split could run ahead, and make the rows of all others late.",
    tested="A query reads two splits, one of which pauses. The planner process is killed after every plan, also "
    "during the pause.",
    passes="No batch reads a row past the bound. The watermark never goes back. Every row is delivered once.",
    look_at=("snapshot(), and the enumerator that is made from it", "an answer that depends on earlier questions"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a pause", "a restart"),
    source="enumerators.planning.offset",
)
def check_a_restart_stays_aligned(lab: Lab) -> None:
    """Kill the planner process after every plan."""
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


@rule(
    "ALIGN-7",
    "a row limit is held",
    purpose="Users limit a batch because a greater one does not fit into memory, or takes too long.",
    tested="Splits have rows of different times, and of one time. A query reads them with at most 4 rows a batch.",
    passes="No batch has more than 4 rows, and all rows are delivered.",
    look_at=(
        "cost(): count the rows of the given ranges",
        "positions that hold several rows: opt out of ROW_POSITIONS",
    ),
    needs=(Ability.ROW_POSITIONS, Ability.COUNTED_POSITIONS),
    witness=("a batch that leaves rows",),
    source="SupportsCost",
)
def check_a_row_limit_is_held(lab: Lab) -> None:
    """Read at most four rows at a time."""
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
    "no split is starved by a row limit",
    purpose="A small split beside a large one would wait until the large one is read, which may be never.",
    tested="One split has many rows of one time, and two others have a few. A query reads them with at most 6 rows a "
    "batch.",
    passes="A split can give its next row to any batch that reads a row of that time or a later one. No split is left "
    "out of 3 such batches in a row. All rows are delivered, none of them late.",
    look_at=("a cost() that is greater for a small range than for a large one",),
    needs=(Ability.MANY_SPLITS, Ability.ROW_POSITIONS, Ability.COUNTED_POSITIONS),
    witness=("a batch that leaves rows",),
    source=_RULES,
)
def check_no_split_is_starved_by_a_row_limit(lab: Lab) -> None:
    """Read a large split and small ones."""
    _write_large_and_small(lab)
    _expect_fair(lab, _DRIFT)


@rule(
    "ALIGN-9",
    "without alignment everything is read",
    purpose="A user who turns alignment off wants all rows, and a share of the batches for every split.",
    tested="With alignment=none, a query reads one large split and two small ones with at most 6 rows a batch. "
    "Without MANY_SPLITS or ROW_POSITIONS, it reads one split with a gap of minutes, and without a row limit.",
    passes="All rows are delivered, none of them late. No split is starved, as in ALIGN-8.",
    look_at=("peek(), which the watermark still needs",),
    needs=(Ability.COUNTED_POSITIONS,),
    witness=("a batch that leaves rows",),
    source="sources.contract.Source: alignment",
)
def check_without_alignment_everything_is_read(lab: Lab) -> None:
    """Read without alignment."""
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
