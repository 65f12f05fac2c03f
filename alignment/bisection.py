"""Searches a split for an event time by looking at single records."""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt

from tidegate.alignment.splits import Head

_FIRST_STEP = 2048  # positions
_STRIDE = 8
_GOOD_ENOUGH = 16


class Bisection:
    """The search for the first record at or after an event time, in one split.

    The answer is between ``low``, a record before the time, and ``high``, a position at which no record before the time
    was seen.  The search interpolates by event time, and halves now and then because event times need not be spread
    evenly.

    head: the first unread record; before the time.
    known: earlier peeks, each as the position that was asked for and its answer.
    exact: continue until the record itself is found, however few positions are left.
    """

    def __init__(
        self,
        head: Head,
        end: int,
        event_time_ms: int,
        known: Iterable[tuple[int, Head | None]] = (),
        *,
        exact: bool = False,
    ) -> None:
        self._time_ms = event_time_ms
        self._exact = exact
        self._first = head.position
        self._low = head
        self._high = self._end = end
        self._high_ms: int | None = None
        self._asked = 0
        self._side = 0
        self._step = _FIRST_STEP // _STRIDE
        for position, answer in sorted(known, key=lambda peek: peek[0]):
            self.answer(position, answer)

    def question(self) -> int | None:
        """Return the position to peek at next; None: the remaining positions are not worth a request."""
        first, last = self._low.position + 1, self._high - 1
        worth_asking = 0 if self._exact else (self._low.position - self._first) // _GOOD_ENOUGH
        if last - first < worth_asking:
            return None
        self._asked += 1
        if self._high_ms is None and self._high < self._end:
            # Holes up to the end, or the inside of one long record: positions need not be records.
            return (first + last) // 2
        if self._high_ms is None:
            # Nothing is known about the far side: gallop, so that a cut nearby costs few peeks.  The next plans ask for
            # the same round positions again, and the index remembers the answers.
            self._step *= _STRIDE
            return min(last, (self._low.position // self._step + 2) * self._step)
        if self._asked % 3 == 0:
            return (first + last) // 2
        share = (self._time_ms - self._low.event_time_ms) / (self._high_ms - self._low.event_time_ms)
        # A guess that is slightly off would leave all the rest in doubt.  Overstep, to close in from both sides.
        nudge = isqrt(last - first) * self._side
        return min(last, max(first, first + int((last - first) * share) + nudge))

    def answer(self, asked: int, head: Head | None) -> None:
        """Take the first record at or after the position that was asked for."""
        if asked >= self._high:
            return  # rule 5: behind a record at or past the time there is disorder, which must not move the cut past it
        if head is None or head.position >= self._high:
            self._high = asked
        elif head.event_time_ms >= self._time_ms:
            self._high, self._high_ms, self._side = asked, head.event_time_ms, -1
        elif head.position > self._low.position:
            self._low, self._side = head, 1

    def result(self) -> tuple[int, int | None]:
        """Return the position of the cut, and the event time of the next record.

        The cut is never before the record that was searched for; with ``exact`` it is at that record.
        """
        return self._high, self._high_ms
