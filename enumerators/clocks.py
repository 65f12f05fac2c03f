"""The clocks of a run; tests replace them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


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
