"""TIME: the watermark of a source, judged by its read and unread rows."""

from __future__ import annotations

from itertools import pairwise

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.judging import backward, late, watermark_ms, watermarks
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule


@rule("TIME-8", witness=("a watermark before unread rows",))
def the_watermark_follows_the_next_unread_rows(lab: Lab) -> None:
    lab.split(*after(*(n * 4 for n in range(10))))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(*(1.5 + n * 7 for n in range(6))))
    query = Query(lab, lab.source(maxDrift="10 seconds", maxOutOfOrderness="3 seconds"))
    query.run_until_read(lab.rows)
    read = set[str]()
    for batch, expected_ms in watermarks(lab.written, lab.times, query.batches, out_of_orderness_ms=3 * SECOND_MS):
        read.update(batch.keys)
        if not batch.keys or any(read.issuperset(keys) for keys in lab.written.values()):
            continue
        lab.saw("a watermark before unread rows")
        # A cut by probing may leave the exact time of the next row open.
        reached_ms = expected_ms if lab.can(Ability.TIME_INDEX) else min(batch.watermark_ms or 0, expected_ms or 0)
        lab.expect(
            batch.watermark_ms == reached_ms,
            f"after batch {batch.number} the watermark is {said(batch.watermark_ms)}, but by the rows that are unread "
            f"it should be {said(expected_ms)}",
        )


@rule("TIME-9", needs=(Ability.DISORDER,), witness=("a row out of order", "a watermark that moved"))
def no_row_comes_at_or_before_the_watermark(lab: Lab) -> None:
    lab.split(*after(0, 4, 1, 5, 9, 5.5, 12, 8, 10, 14, 18, 15, 20))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(12, 16, 13, 22, 18, 26))
    query = Query(lab, lab.source(maxDrift="6 seconds", maxOutOfOrderness="4 seconds", idleTimeout="1 second"))
    query.run_until_read(lab.rows)
    times = lab.times
    if any(times[second] < times[first] for keys in lab.written.values() for first, second in pairwise(keys)):
        lab.saw("a row out of order")
    if len({batch.watermark_ms for batch in query.batches}) > 2:
        lab.saw("a watermark that moved")
    lab.refuse(late(lab.times, query.batches))
    lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))


@rule("TIME-10", needs=(Ability.NEW_SPLITS,), witness=("a watermark", "older rows"))
def the_watermark_never_goes_back(lab: Lab) -> None:
    query = Query(lab, lab.source())
    query.run_until_read(lab.split(*after(60, 61)).rows)
    query.rest()
    if query.batches[-1].watermark_ms is not None:
        lab.saw("a watermark")
    query.crash()
    query.run_until_read(lab.split(*after(1, 2)).rows)
    query.crash()
    query.pass_time(1)
    lab.saw("older rows")
    lab.refuse(backward(query.batches))


@rule("TIME-11", needs=(Ability.MANY_SPLITS, Ability.GROWING_SPLITS), witness=("a watermark",))
def the_slowest_split_holds_the_watermark(lab: Lab) -> None:
    slow = lab.split(*after(0, 5))
    lab.split(*after(1, 65))
    query = Query(lab, lab.source())
    query.run_until_read(lab.rows)
    query.rest()
    for batch, limit_ms in watermarks(lab.written, lab.times, query.batches, out_of_orderness_ms=0):
        if batch.watermark_ms is None or limit_ms is None:
            continue
        lab.saw("a watermark")
        lab.expect(
            batch.watermark_ms <= limit_ms,
            f"after batch {batch.number} the watermark is {said(batch.watermark_ms)}, but split {slow.number} may "
            f"go on after {said(limit_ms)}",
        )


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


@rule(
    "TIME-13",
    needs=(Ability.MANY_SPLITS, Ability.GROWING_SPLITS),
    witness=("a split that is idle", "a split that woke"),
)
def a_split_that_wakes_holds_the_watermark_again(lab: Lab) -> None:
    quiet = lab.split(*after(0, 5))
    busy = lab.split(*after(1, 65))
    query = Query(lab, lab.source(idleTimeout="30 seconds"))
    _until_idle(lab, query, quiet.number, busy.number)
    woken = quiet.append_each(*after(200, 201))
    query.run_until_read([*woken, *busy.append_each(*after(300, 400))])
    query.pass_time(5)
    lab.saw("a split that woke")
    watermark_ms, limit_ms = query.batches[-1].watermark_ms, _past(201)
    lab.expect(
        watermark_ms is not None and watermark_ms <= limit_ms,
        f"the watermark is {said(watermark_ms)}, but split {quiet.number} woke and stands at {said(limit_ms)}",
    )
    lab.refuse(late(lab.times, query.batches))


@rule("TIME-14", needs=(Ability.MANY_SPLITS, Ability.FINITE_SPLITS), witness=("a complete split",))
def a_complete_split_stops_holding_the_watermark(lab: Lab) -> None:
    ended = lab.split(*after(0, 5))
    lab.split(*after(1, 65))
    ended.finish()
    query = Query(lab, lab.source(idleTimeout="1 hour"))
    query.run_until_read(lab.rows)
    lab.saw("a complete split")
    query.run_until(
        lambda: query.batches[-1].watermark_ms == _past(65),
        f"the watermark does not reach {said(_past(65))}, though split {ended.number} is finished",
    )


@rule("TIME-15", witness=("a bounded run",))
def the_watermark_reaches_the_last_event_times(lab: Lab) -> None:
    lab.split(*after(0, 30))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(1, 40))
    query = Query(lab, lab.source(maxOutOfOrderness="2 seconds"))
    query.finish()
    lab.compare(query.delivered)
    lab.saw("a bounded run")
    released = [] if lab.can(Ability.GROWING_SPLITS) else list(lab.written)
    expected_ms = watermark_ms(
        lab.written, lab.times, query.delivered, cut_ms=None, out_of_orderness_ms=2 * SECOND_MS, released=released
    )
    source_ms = query.batches[-1].watermark_ms
    lab.expect(source_ms == expected_ms, f"at the end the watermark is {said(source_ms)}, and not {said(expected_ms)}")


@rule("TIME-16", needs=(Ability.MANY_SPLITS,), witness=("an empty split",))
def a_split_that_never_had_a_row_holds_no_watermark(lab: Lab) -> None:
    lab.split()
    lab.split(*after(0, 5))
    query = Query(lab, lab.source())
    query.run_until_read(lab.rows)
    query.rest()
    lab.saw("an empty split")
    watermark_ms = query.batches[-1].watermark_ms
    lab.expect(watermark_ms == _past(5), f"the watermark is {said(watermark_ms)}, and not {said(_past(5))}")


@rule("TIME-17", witness=("a batch of one millisecond",))
def times_are_exact_to_the_millisecond(lab: Lab) -> None:
    split = lab.split(*(BEGIN_MS + by for by in (0, 1, 500, 998, 999)))
    query = Query(lab, lab.source(maxDrift="1 ms"))
    query.run_until_read(split.rows)
    times = lab.times
    for batch in (batch for batch in query.batches if batch.keys):
        read = sorted({times[key] for key in batch.keys})
        lab.expect(len(read) == 1, f"batch {batch.number} holds rows of {len(read)} times: {', '.join(batch.keys)}")
        lab.saw("a batch of one millisecond")
        unread = [at_ms for at_ms in times.values() if at_ms > read[0]]
        limit_ms = min(unread, default=read[0]) - 1
        watermark_ms = batch.watermark_ms
        lab.expect(
            watermark_ms is not None and watermark_ms <= limit_ms,
            f"after batch {batch.number} the watermark is {said(watermark_ms)}, "
            f"but a row of {said(limit_ms + 1)} may come",
        )


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
