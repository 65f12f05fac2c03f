"""The clocks of a run, which tests replace, and the last pauses between runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST_PAUSES = 8


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks in seconds: one that never goes back or jumps, and one since the epoch, which may be adjusted."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @property
    def are_real(self) -> bool:
        """Whether this is real time: only then may a run wait for another system, or a thread renew a lease."""
        return self.monotonic is time.monotonic


REAL_CLOCKS = Clocks()


def with_pause(pauses_ms: Sequence[int], pause_ms: int) -> list[int]:
    """Return the last pauses in ms, with one more."""
    return [*pauses_ms, pause_ms][-_MOST_PAUSES:]


def usual_ms(pauses_ms: Sequence[int]) -> int:
    """Return the usual one of the last pauses in ms; 0: there was none.

    It is the second longest: neither an outage nor a run that is repeated once or twice is usual.  Of fewer than three
    pauses it is the longest, because the other one may be that before a repeated run.
    """
    by_length = sorted(pauses_ms)
    return by_length[-2 if len(by_length) > 2 else -1] if by_length else 0
