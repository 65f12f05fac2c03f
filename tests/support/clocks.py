"""A clock that only its own pauses move."""

from __future__ import annotations

from bisect import bisect_right


class StillClock:
    """Stands still but for its pauses."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    def pause(self, seconds: float) -> None:
        self._now_s += seconds


def most_in_a_second(times_s: list[float]) -> int:
    """Return how many of some rising times lie within a second, at most; one that rounding moved is not counted."""
    return max((bisect_right(times_s, at_s + 1 - 1e-6) - place for place, at_s in enumerate(times_s)), default=0)
