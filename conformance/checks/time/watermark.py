"""TIME: the watermark of a source, judged by its read and unread rows."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.lab import Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule


@rule(
    "TIME-12",
    needs=(Ability.MANY_SPLITS, Ability.GROWING_SPLITS),
    witness=("a split that holds", "a split that is idle"),
)
def an_idle_split_stops_holding_the_watermark_after_the_timeout(lab: Lab) -> None:
    quiet = lab.split(*after(0, 5))
    busy = lab.split(*after(1, 65))
    query = Query(lab, lab.source(idleTimeout="30 seconds"))
    _until_idle(lab, query, quiet.number, busy.number)


def _until_idle(lab: Lab, query: Query, quiet: int, busy: int) -> None:
    """Let one of two splits get no rows for 31 s, and expect it to release the watermark."""
    query.run_until_read(lab.rows)
    query.rest()
    query.pass_time(29)
    query.run_until_read(lab.splits[busy].append_each(*after(66)))
    held_ms = _past(5)
    watermark_ms = query.batches[-1].watermark_ms
    lab.expect(
        watermark_ms is not None and watermark_ms <= held_ms,
        f"the watermark is {said(watermark_ms)} before the idle timeout is over, "
        f"but split {quiet} stands at {said(held_ms)}",
    )
    lab.saw("a split that holds")
    query.clock.sleep(2)
    query.run_until(
        lambda: query.batches[-1].watermark_ms == _past(66),
        f"the watermark does not reach {said(_past(66))}, though split {quiet} has nothing to read for longer "
        "than the idle timeout",
    )
    lab.saw("a split that is idle")


def _past(seconds: float) -> int:
    """Return the watermark after all rows up to a time are read, if they are in order."""
    return after(seconds)[0] - 1
