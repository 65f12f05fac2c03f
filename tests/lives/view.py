"""A split as one plan could see it, what is promised to rows, and Spark's watermark over all sources of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tests.lives.source import Row
from tests.lives.world import NEVER, Log

if TYPE_CHECKING:
    from tests.lives.judge import Judge


class View(NamedTuple):
    """A split as a plan could see it.

    begin, end: the extent, at most to the configured end.
    position, last: what this run may read, the end exclusive.
    times: the event times by which its positions count; None: by none.
    is_finished: it is read to its configured end.
    """

    log: Log
    begin: int
    position: int
    last: int
    settled: bool
    end: int
    times: dict[int, int | None]
    is_finished: bool = False

    @property
    def unread(self) -> list[int]:
        return self.between(self.position, self.last)

    @property
    def next_ms(self) -> int | None:
        """The event time of the next record, even if this run leaves it to the next one."""
        return next(iter(self.between(self.position, self.end)), None)

    @property
    def known(self) -> list[int]:
        return self.between(self.begin, self.last)

    def between(self, start: int, end: int) -> list[int]:
        return [at_ms for p in range(start, end) if (at_ms := self.times.get(p)) is not None]


def disorder(times: list[int]) -> int:
    """Return how far any time is behind the greatest one before it."""
    return max((most - t for most, t in zip(accumulate(times, max), times, strict=True)), default=0)


@dataclass
class Promise:
    """What is known of a split, for the promises to its rows.

    backlog: it has had unread records since the query began.
    holding: it has held back the others since then.
    greatest_ms: of the rows that were delivered of it.
    timed: a row was planned that has a time.  A split whose rows were all read in the future may hold the others at
        them once their time has come, or not: a run remembers what was left out, and the next run asks anew.
    """

    backlog: bool = True
    holding: bool = True
    greatest_ms: int = NEVER
    timed: bool = False


@dataclass
class Union:
    """Spark's watermark over all sources of a query; greatest_ms: also of the batch that is read."""

    judges: list[Judge] = field(default_factory=list)
    spark_ms: int = NEVER
    greatest_ms: int = NEVER

    def delay_ms(self) -> int:
        """Return the delay that loses no row at the live edge."""
        return max(judge.delay_ms() + (judge.present.options.drift_ms or 0) for judge in self.judges)

    def end_batch(self) -> None:
        self.spark_ms = max(self.spark_ms, self.greatest_ms)


def judge_dropped(row: Row, delay_ms: int, spark_ms: int) -> None:
    assert row.at_ms > spark_ms - delay_ms, (
        f"with a delay of {delay_ms} Spark's watermark is {spark_ms - delay_ms} and drops {row}"
    )


def raced(views: dict[str, View]) -> bool:
    """Return whether records were deleted within a plan, which then may know them, or not."""
    return any(v.begin != v.log.begin for v in views.values())
