"""The clocks of a run, which tests replace, and the pauses between runs, by which each knows what is usual."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_high

_MOST_PAUSES = 4  # a run that is repeated once or twice in a row does not hide the usual one


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
    """Return the usual one of the last pauses in ms; 0: there was none."""
    return median_high(pauses_ms) if pauses_ms else 0
