"""ALIGN: splits kept together in event time."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.query import Query
from tidegate.conformance.rules import rule

__all__ = ["check_no_row_past_the_bound_is_read"]


@rule(
    "ALIGN-1",
    "no row past the bound is read",
    purpose="A row that is read too early moves Spark's watermark, and makes all others late.",
    tested="Two splits, one 60 s behind the other, are read with a max drift of 10 s.",
    passes="In each batch every row lies less than 10 s past the oldest row that was unread before it; the split that "
    "is ahead is seen to wait, and then to go on.",
    look_at=("lookup(): the first row at or after the time", "peek(): the first row at or after the position"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a pause", "a resumption"),
    source="FLIP-182, FLIP-217",
)
def check_no_row_past_the_bound_is_read(lab: Lab) -> None:
    """Read two splits that are a minute apart."""
    behind = lab.split(*(BEGIN_MS + n * 5 * SECOND_MS for n in range(24)))
    ahead = lab.split(*(BEGIN_MS + (60 + n * 5) * SECOND_MS for n in range(12)))
    drift_ms = 10 * SECOND_MS
    query = Query(lab, lab.source(maxDrift="10 seconds"))
    times = {row.key: row.event_time_ms or 0 for row in behind.rows + ahead.rows}
    unread = dict(times)
    query.run_until_read(behind.rows + ahead.rows)
    for batch in query.batches:
        if not batch.keys:
            continue
        bound_ms = min(unread.values()) + drift_ms
        beyond = [key for key in batch.keys if times[key] >= bound_ms]
        lab.expect(
            not beyond,
            f"batch {batch.number} reads {beyond[:3]} at or past the bound: the slowest unread row was "
            f"{min(unread, key=unread.__getitem__)}",
        )
        if not any(key in times and key.startswith(f"{ahead.number}#") for key in batch.keys):
            lab.saw("a pause")
        elif "a pause" in lab.seen:
            lab.saw("a resumption")
        for key in batch.keys:
            unread.pop(key, None)
    lab.compare(query.delivered)
