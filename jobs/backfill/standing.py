"""Computes how far a run has come in event time.  Pure logic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.planning.source_progress import epoch_ms
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, share, span
from tidegate.jobs.run_extent import Stretch
from tidegate.sources.progress.query import QueryProgress

__all__ = ["BackfillStanding", "standing"]

_PAUSED = "paused"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class BackfillStanding:
    """The standing of a run in event time.

    at_ms: no unread record is older, except for disorder.
    done_ms, left_ms: the event time covered and still to cover, from the first record of all runs to the last.
    rows, rows_left: how many rows were read by this run, and how many are still to read.
    rows_per_s: the speed of the last batches.
    slowest: the split that holds back the others, and the event time of its next record.
    paused: the splits that wait for the slowest.
    """

    at_ms: int | None
    done_ms: int
    left_ms: int
    rows: int
    rows_left: int
    rows_per_s: float = 0.0
    slowest: tuple[SplitId, int] | None = None
    paused: tuple[SplitId, ...] = ()

    @property
    def headline(self) -> str:
        """The progress so far, as text."""
        if self.at_ms is None:
            return "no event time is known"
        whole = self.done_ms + self.left_ms
        done = min(self.done_ms, whole - 1) if self.rows_left else self.done_ms
        percent = share(done, whole) if whole else share(self.rows, self.rows + self.rows_left)
        return f"{percent} · {clock_time(self.at_ms)} · {span(self.done_ms)} done, {span(self.left_ms)} left"

    @property
    def details(self) -> str:
        """The speed, and the splits that wait for others, as text."""
        parts = [counted(self.rows, "row"), f"{count(self.rows_per_s)} rows/s"]
        if self.slowest is not None:
            parts.append(f"slowest {self.slowest[0]} at {clock_time(self.slowest[1])}")
        if self.paused:
            more = len(self.paused) - _NAMED
            parts.append(f"paused {', '.join(self.paused[:_NAMED])}" + (f" and {more} more" if more > 0 else ""))
        return " · ".join(parts)


def standing(
    stretches: Mapping[SplitId, Stretch], recent: Sequence[QueryProgress], rows: int, begun_ms: int | None = None
) -> BackfillStanding:
    """Return the standing of a run.

    stretches: the known stretches of all splits that the run reads.
    recent: the last batches, from which the speed follows.
    rows: how many rows all batches of the run have read.
    begun_ms: where the first of all runs began; None: this is the first, or it is not known.
    """
    resumed_ms = min((s.begin_ms for s in stretches.values() if s.begin_ms is not None), default=None)
    begin_ms = resumed_ms if resumed_ms is None or begun_ms is None else min(resumed_ms, begun_ms)
    end_ms = max((s.end_ms for s in stretches.values() if s.end_ms is not None), default=None)
    whole_ms = 0 if begin_ms is None or end_ms is None else max(0, end_ms - begin_ms)
    seconds = sum(batch.seconds for batch in recent)
    rows_per_s = sum(batch.rows for batch in recent) / seconds if seconds else 0.0
    last = next((progress for batch in reversed(recent) if (progress := batch.source.progress) is not None), None)
    if last is None:
        done_ms = 0 if begin_ms is None or resumed_ms is None else min(resumed_ms - begin_ms, whole_ms)
        left = sum(stretch.rows for stretch in stretches.values())
        return BackfillStanding(resumed_ms, done_ms, whole_ms - done_ms, rows, left, rows_per_s)
    if begin_ms is None or end_ms is None:
        return BackfillStanding(None, 0, 0, rows, last.rows_remaining, rows_per_s)
    unread = [
        (epoch_ms(split.next_event_time), s)
        for s, split in last.by_split.items()
        if split.rows_remaining and split.next_event_time is not None
    ]
    slowest = min(unread, default=None)
    if slowest is not None:
        at_ms = slowest[0]
    elif last.rows_remaining and last.bound is not None:  # too many splits to list
        at_ms = epoch_ms(last.bound)
    else:
        at_ms = end_ms
    done_ms = min(max(at_ms - begin_ms, 0), whole_ms)
    return BackfillStanding(
        at_ms,
        done_ms,
        whole_ms - done_ms,
        rows,
        last.rows_remaining,
        rows_per_s,
        None if slowest is None else (slowest[1], slowest[0]),
        tuple(s for s, split in last.by_split.items() if split.state == _PAUSED),
    )
