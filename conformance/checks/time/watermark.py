"""TIME: the watermark of a source, judged by its read and unread rows."""

from __future__ import annotations

from itertools import pairwise

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.judging import backward, late, watermark_ms, watermarks
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Level

__all__ = [
    "check_a_complete_split_stops_holding_the_watermark",
    "check_a_split_that_never_had_a_row_holds_no_watermark",
    "check_a_split_that_wakes_holds_the_watermark_again",
    "check_an_idle_split_stops_holding_the_watermark_after_the_timeout",
    "check_no_row_comes_at_or_before_the_watermark",
    "check_the_slowest_split_holds_the_watermark",
    "check_the_watermark_follows_the_next_unread_rows",
    "check_the_watermark_never_goes_back",
    "check_the_watermark_reaches_the_last_event_times",
    "check_times_are_exact_to_the_millisecond",
]

_FORMULA = "docs/planning.md: The rules of a plan"
_IDLENESS = "FLIP-126; alignment.states"


@rule(
    "TIME-8",
    "the watermark follows the next unread rows",
    purpose="A watermark that is too great makes rows late. A watermark that is too small keeps Spark's state forever.",
    tested="A query reads splits with rows at different times. The max drift is 10 s, and the out-of-orderness is 3 s.",
    passes="The watermark is the minimum, over all splits, of min(T, next event time) - 3 s - 1 ms. This holds after "
    "each batch that leaves unread rows in every split. Without a time index, the watermark may be less.",
    look_at=("peek(): the event time of the row where a batch ends", "lookup(): the event time in the answer"),
    witness=("a watermark before unread rows",),
    source=_FORMULA,
)
def check_the_watermark_follows_the_next_unread_rows(lab: Lab) -> None:
    """Compare the watermark of a back-fill with the formula."""
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


@rule(
    "TIME-9",
    "no row comes at or before the watermark",
    purpose="A row at or before the watermark is late. Spark drops it silently.",
    tested="Rows lie up to 4 s behind earlier rows of their split. A query reads them with a maxOutOfOrderness of 4 s.",
    passes="No batch holds a row at or before the watermark of an earlier batch. All rows are delivered.",
    look_at=("latest(): never too great", "peek(): the first row by position, not by time"),
    needs=(Ability.DISORDER,),
    witness=("a row out of order", "a watermark that moved"),
    source=_FORMULA,
)
def check_no_row_comes_at_or_before_the_watermark(lab: Lab) -> None:
    """Read splits that are in disorder."""
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


@rule(
    "TIME-10",
    "the watermark never goes back",
    purpose="Spark has closed windows by the greater watermark. Rows that come for them are lost, wherever the "
    "watermark goes.",
    tested="A query reads a split, and the planner process is killed. Then a split with older rows appears. The query "
    "reads it, and the planner process is killed once more.",
    passes="No batch has a smaller watermark than the batch before it. Once a batch has a watermark, every later "
    "batch has one.",
    look_at=("latest(): a time that becomes smaller though no row was deleted",),
    needs=(Ability.NEW_SPLITS,),
    witness=("a watermark", "older rows"),
    source=_FORMULA,
)
def check_the_watermark_never_goes_back(lab: Lab) -> None:
    """Let older rows appear, and kill the planner process."""
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


@rule(
    "TIME-11",
    "the slowest split holds the watermark",
    purpose="If the watermark were the maximum over the splits, all unread rows of slower splits would be late.",
    tested="Two splits may grow, and their last rows are a minute apart. A query reads both to their ends.",
    passes="The watermark never passes the next row of either split. At the end it is at most the last event time of "
    "the slower split, less 1 ms.",
    look_at=(
        "latest(): answer for each split, not for all together",
        "extents(): complete=False for a split that may grow",
    ),
    needs=(Ability.MANY_SPLITS, Ability.GROWING_SPLITS),
    witness=("a watermark",),
    source=_FORMULA,
)
def check_the_slowest_split_holds_the_watermark(lab: Lab) -> None:
    """Read two splits to their ends."""
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
    "an idle split stops holding the watermark after the timeout",
    purpose="One quiet split would hold back all results of the others forever. A split that is released too early "
    "loses rows.",
    tested="With an idleTimeout of 30 s, one split is quiet while rows come in another.",
    passes="For 29 s the watermark does not pass the last row of the quiet split. After 31 s it follows the other "
    "split.",
    look_at=("extents(): settled=True unless rows are hidden", "extents(): an end that moves without new rows"),
    needs=(Ability.MANY_SPLITS, Ability.GROWING_SPLITS),
    witness=("a split that holds", "a split that is idle"),
    source=_IDLENESS,
)
def check_an_idle_split_stops_holding_the_watermark_after_the_timeout(lab: Lab) -> None:
    """Let one of two splits be quiet."""
    quiet = lab.split(*after(0, 5))
    busy = lab.split(*after(1, 65))
    query = Query(lab, lab.source(idleTimeout="30 seconds"))
    _until_idle(lab, query, quiet.number, busy.number)


@rule(
    "TIME-13",
    "a split that wakes holds the watermark again",
    purpose="Otherwise the next rows of the split that woke would be late.",
    tested="A split becomes idle, and then gets rows that are in time. Another split runs ahead of it.",
    passes="The watermark stays before the last row of the split that woke. No row is late.",
    look_at=("extents(): an end that does not move when rows come",),
    needs=(Ability.MANY_SPLITS, Ability.GROWING_SPLITS),
    witness=("a split that is idle", "a split that woke"),
    source=_IDLENESS,
)
def check_a_split_that_wakes_holds_the_watermark_again(lab: Lab) -> None:
    """Let a split become idle and wake."""
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


@rule(
    "TIME-14",
    "a complete split stops holding the watermark",
    purpose="A finished split would hold back all results of the others for no reason.",
    tested="One of two splits is finished. The last row of the other is a minute later. The idleTimeout is an hour.",
    passes="The watermark reaches the last row of the other split before the idle timeout is over.",
    look_at=("extents(): complete=True once no more rows can come",),
    needs=(Ability.MANY_SPLITS, Ability.FINITE_SPLITS),
    witness=("a complete split",),
    source="alignment.splits.Extent",
)
def check_a_complete_split_stops_holding_the_watermark(lab: Lab) -> None:
    """Finish one of two splits."""
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


@rule(
    "TIME-15",
    "the watermark reaches the last event times",
    level=Level.SHOULD,
    purpose="A smaller watermark holds back the last results: the last windows and the last sessions.",
    tested="A bounded run reads splits to their ends, with an out-of-orderness of 2 s.",
    passes="At the end, the watermark is the last event time of one split, less 2 s and 1 ms. This split is the "
    "slowest one that may grow. If none may grow, it is the one furthest ahead.",
    look_at=("latest(): a time that is too small", "extents(): complete=True once no more rows can come"),
    witness=("a bounded run",),
    source=_FORMULA,
)
def check_the_watermark_reaches_the_last_event_times(lab: Lab) -> None:
    """Read all rows by a bounded run."""
    lab.split(*after(0, 30))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(1, 40))
    query = Query(lab, lab.source(maxOutOfOrderness="2 seconds", maxDrift="10 seconds"))
    query.finish()
    lab.compare(query.delivered)
    lab.saw("a bounded run")
    released = [] if lab.can(Ability.GROWING_SPLITS) else list(lab.written)
    expected_ms = watermark_ms(
        lab.written, lab.times, query.delivered, cut_ms=None, out_of_orderness_ms=2 * SECOND_MS, released=released
    )
    source_ms = query.batches[-1].watermark_ms
    lab.expect(source_ms == expected_ms, f"at the end the watermark is {said(source_ms)}, and not {said(expected_ms)}")


@rule(
    "TIME-16",
    "a split that never had a row holds no watermark",
    purpose="An empty split would hold back all results forever.",
    tested="One split is empty, and another has rows. A query reads both.",
    passes="There is a watermark: the event time of the last row, less 1 ms.",
    look_at=("latest() of an empty split: None, not 0 or -1",),
    needs=(Ability.MANY_SPLITS,),
    witness=("an empty split",),
    source="Beam issue 20908",
)
def check_a_split_that_never_had_a_row_holds_no_watermark(lab: Lab) -> None:
    """Leave a split empty."""
    lab.split()
    lab.split(*after(0, 5))
    query = Query(lab, lab.source())
    query.run_until_read(lab.rows)
    query.rest()
    lab.saw("an empty split")
    watermark_ms = query.batches[-1].watermark_ms
    lab.expect(watermark_ms == _past(5), f"the watermark is {said(watermark_ms)}, and not {said(_past(5))}")


@rule(
    "TIME-17",
    "times are exact to the millisecond",
    purpose="With rounded times, a query reads rows past the bound, and the watermark passes unread rows.",
    tested="A query with a max drift of 1 ms reads rows at .000, .001, .500, .998 and .999 of a second.",
    passes="Every batch holds the rows of one millisecond. Its watermark lies at least 1 ms before the next row.",
    look_at=("conversions by way of seconds or floating point", "a mix-up of seconds, milliseconds and microseconds"),
    witness=("a batch of one millisecond",),
    source="alignment.splits.Head",
)
def check_times_are_exact_to_the_millisecond(lab: Lab) -> None:
    """Read rows that are a millisecond apart."""
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
