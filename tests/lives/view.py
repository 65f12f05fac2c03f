"""A split as one plan could see it."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from tests.lives.world import Log


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
