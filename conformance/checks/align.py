"""ALIGN: how far a batch reads, with any splits, budget, and rows from the future.  WHOLE: lives of a query."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from random import Random

from tidegate.add_ons import Budget
from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.lab import BEGIN_MS, IN_THE_YEAR_2200_MS, SECOND_MS, Lab, after, time_text
from tidegate.conformance.lab.life import IDLE_S, Life
from tidegate.conformance.lab.query import Query, dropped
from tidegate.conformance.rules import rule
from tidegate.connector import Source, SupportsCost

# A split that is read to its end holds back the others for the idle timeout, which these rules do not test.
_DRIFT = {"maxDrift": "10 seconds", "idleTimeout": "1 second"}
_DISORDER_S = 1
_LIMITS = ((), (12,), (40, 3))  # rows of batches, in turn
_ALIGNED = {
    "maxDrift": "64 seconds",
    "maxOutOfOrderness": f"{_DISORDER_S} second",
    "idleTimeout": "1 second",
}

_SECONDS = 8.0  # of random lives
_FEWEST_LIVES, _MOST_LIVES = 5, 100
_FEWEST_STEPS, _MOST_STEPS = 5, 25
_MOST_SPLITS = 5
_DRIFTS_S = (10, 1, 60, None)
_GAPS_S = (0, 1, 1, 4, 5, 9, 10, 11, 40, 900)
_FREQUENT = {"batch", "new split", "append"}
_STEPS: Mapping[str, Collection[Ability]] = {
    "batch": (),
    "crash before the commit": (),
    "crash": (),
    "bounded run": (),
    "wait": (),
    "resize": (),
    "new split": {Ability.MANY_SPLITS},
    "append": {Ability.GROWING_SPLITS, Ability.NEW_SPLITS},
    "finish": {Ability.FINITE_SPLITS},
    "trim": {Ability.RETENTION},
    "remove": {Ability.REMOVABLE_SPLITS},
}
"""The steps of a life, each with abilities of which it needs one.  The first life has the first ones."""


@rule("ALIGN-1", needs=(Ability.MANY_SPLITS,), witness=("a pause",))
def no_row_past_the_bound_is_read(lab: Lab) -> None:
    """No row past the bound is read.

    A row that is read too early moves Spark's watermark, and makes the rows of other splits late. A split that is ahead
    waits, and all rows come.

    Look at: lookup() and peek(): the first row at or after the time, or the position.
    """
    life = Life(lab, drift_s=10)
    for first, rows in ((5, 16), (60, 9)):
        life.append(lab.split(), [first + 5 * number for number in range(rows)])
    life.end()


@rule("ALIGN-25", witness=("a row that is held",))
def a_row_from_the_future_is_held_alone(lab: Lab) -> None:
    """A row from the future is held alone.

    With futureEventTime=hold, the row itself and the rows behind it wait, but no other split does, and the watermark
    stays among the times of the others.

    Look at: peek(), which counts the row by its time under hold; latest(), which does not, because the row is unread.
    """
    split = lab.split(*after(0, 2), IN_THE_YEAR_2200_MS, *after(4, 6, 8))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(5, 14, 34))
    held, waiting = split.keys[2], split.keys[3:]
    times = {key: at_ms for key, at_ms in lab.times.items() if key not in {held, *waiting}}
    source = lab.source(futureEventTime="hold", **_DRIFT)
    _expect_found(lab, source, held)
    query = Query(lab, source)
    query.run_until_read([row for row in lab.rows if row.key in times])
    query.pass_time(5)
    lab.saw("a row that is held")
    lab.expect(held not in query.delivered, f"the row {held} is delivered before its time has come")
    watermark_ms = query.batches[-1].watermark_ms
    lab.expect(
        watermark_ms is not None and min(times.values()) - 1 <= watermark_ms < max(times.values()),
        f"the watermark is {time_text(watermark_ms)}, but the rows to align by are from "
        f"{time_text(min(times.values()))} to {time_text(max(times.values()))}",
    )


def _expect_found(lab: Lab, source: Source, held: str) -> None:
    """Raise ConformanceError unless held() finds a row from the future, and no other."""
    enumerator = lab.enumerator(source)
    for split, rows in lab.placed(source, enumerator).items():
        (whole,) = lab.ranges({split: enumerator.extents([split])[split]})
        head = enumerator.held([whole], lab.horizon).get(split)
        due = next((at for at, keys in rows.items() if held in keys), None)
        found = None if head is None else head.position
        lab.expect(found == due, f"held() of {whole} finds a row at {found}, but the one to be held is at {due}")
    enumerator.close()


@rule("ALIGN-27", needs=(Ability.MANY_SPLITS,), witness=("a batch that leaves rows",))
def sparks_watermark_drops_no_row_in_order(lab: Lab) -> None:
    """Spark's watermark drops no row in order.

    Spark drops late rows silently. With Spark's delay at the out-of-orderness, a back-fill of skewed splits loses none,
    whatever the limits of its batches.

    Look at: lookup(): the first row at or after the time, in every split; peek(): the first row by position; cost(),
    which answers for the given ranges alone.
    """
    _write_a_backfill(lab)
    source = lab.source(**_ALIGNED)
    has_cost = isinstance(lab.enumerator(source), SupportsCost)
    for limits in _LIMITS if lab.can(Ability.COUNTED_POSITIONS) else [()]:
        lab.tell(f"read it with {' and '.join(f'{rows} rows' for rows in limits) or 'any number of rows'} a batch")
        query = Query(lab, source)
        query.run_until_read(lab.rows, *(Budget(rows=n, files=n if has_cost else None) for n in limits))
        query.stop()
        if len(query.batches) > 1:
            lab.saw("a batch that leaves rows")
        lab.refuse(dropped(lab.written, lab.times, query.batches, _DISORDER_S * SECOND_MS))
        lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))


def _write_a_backfill(lab: Lab) -> None:
    behind_s = _DISORDER_S if lab.can(Ability.DISORDER) else 0
    steady = [second - 2 * behind_s * (second % 7 == 6) for second in range(80)]  # a second behind the row before
    crowded = [*(number / 8 for number in range(12)), *range(8, 80, 8)]
    for seconds in (steady, crowded, range(40, 80, 3)):
        split = lab.split()
        # Rows of one append share a position if rows have no positions of their own.
        append = split.append if lab.can(Ability.ROW_POSITIONS) else split.append_each
        append(*after(*seconds))


@rule("WHOLE-1", witness=("a batch read again", "a crash after a commit", "a bounded run", "a pause"))
def whatever_happens_every_row_comes_once_and_splits_stay_aligned(lab: Lab) -> None:
    """Whatever happens, every row comes once, and splits stay aligned.

    No handwritten test covers every moment of a restart. In random lives rows and splits come, end and are deleted, the
    planner is killed and started again, and runs are bounded. Every row comes once and in order unless it was deleted
    unread, no batch reads past its bound or its limit, and no watermark goes back or passes an unread row.

    Look at: lookup(), peek(), latest() and cost(); an error for a deleted split although failOnDataLoss is false;
    extents(): settled and complete; starts() of a split that comes later; enumerator(state); a row that only one of
    extents() and peek() sees; a reader that depends on anything but the range.
    """
    until = time.monotonic() + _SECONDS
    for seed in range(_MOST_LIVES):
        if seed >= _FEWEST_LIVES and time.monotonic() > until:
            return
        with Lab(lab.make, lab.patience_s) as own:
            lab.story, own.seen = own.story, lab.seen
            # The first lives are short, so that the first one that goes wrong is easy to follow.
            _live(own, Random(seed), list(_STEPS)[:_FEWEST_STEPS] if not seed else None, _FEWEST_STEPS + seed)  # noqa: S311


def _live(lab: Lab, rng: Random, steps: Sequence[str] | None, count: int) -> None:
    """Live a life of these steps, or of so many random ones; raises ConformanceError if it goes wrong."""
    drift_s, disorder_s = rng.choice(_DRIFTS_S), rng.choice((0, 0, 6)) if lab.can(Ability.DISORDER) else 0
    life = Life(lab, drift_s if steps is None else _DRIFTS_S[0], disorder_s)
    life.append(lab.split(), [0, 1, 2, 100] if steps else _times(rng, 0, 0))
    for _ in range(0 if steps else rng.randint(0, 2)):
        _do(life, "new split", rng)
    possible = [step for step, needs in _STEPS.items() if not needs or any(map(lab.can, needs))]
    weights = [4 if step in _FREQUENT else 1 for step in possible]
    for step in steps or rng.choices(possible, weights, k=min(count, _MOST_STEPS)):
        _do(life, step, rng)
        life.query.clock.sleep(1.0)  # the query may discover again
    life.end()


def _do(life: Life, step: str, rng: Random) -> None:  # noqa: C901 - a table of the steps
    """Do a step, unless no split is there for it, or none may come."""
    lab, there = life.lab, [split for split in life.lab.splits if split.number not in life.removed]
    split = rng.choice(there) if there else None
    growing = None if split is None or split.number in life.finished else split
    match step:
        case "batch":
            life.batch(rng.choice((None, None, 1, 3)))
        case "crash":
            life.crash(committed=True)
        case "crash before the commit":
            life.crash(committed=False)
        case "bounded run":
            life.run_bounded()
        case "wait":
            life.query.clock.sleep(rng.choice((IDLE_S / 2, IDLE_S + 1)))
        case "resize":
            life.resize(rng.choice((1, 2, 7)))
        case "new split" if lab.can(Ability.NEW_SPLITS if life.query.offsets else Ability.MANY_SPLITS):
            if len(lab.splits) < _MOST_SPLITS:
                life.append(lab.split(), _times(rng, rng.choice((0, 0, 5, 60, 1000)), 0)[rng.choice((0, 0, 5)) :])
        case "append" if growing is not None:
            greatest_ms = max((row.event_time_ms or 0 for row in growing.rows), default=BEGIN_MS)
            life.append(growing, _times(rng, (greatest_ms - BEGIN_MS) / SECOND_MS, life.disorder_s))
        case "finish" if growing is not None:
            life.finish(growing)
        case "trim" if split is not None:
            life.trim(split, rng.randint(1, 4))
        case "remove" if split is not None:
            life.remove(split)


def _times(rng: Random, after_s: float, disorder_s: int) -> list[float]:
    """Return event times of new rows, in seconds, some of them behind an earlier one by at most the disorder."""
    times, most_s = [], after_s
    for _ in range(rng.randint(1, 5)):
        gap_s = rng.choice((-disorder_s, -disorder_s / 2, -1)) if disorder_s and rng.random() < 0.5 else 0
        times.append(most_s + (gap_s or rng.choice(_GAPS_S)))
        most_s = max(most_s, times[-1])
    return times
