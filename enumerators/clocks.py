"""The clocks of a run, which tests replace, and the last pauses between runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST_PAUSES = 4  # a run that is repeated three times in a row does not hide the usual one


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
