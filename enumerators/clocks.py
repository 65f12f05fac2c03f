"""The clocks of a run; tests replace them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["REAL_CLOCKS", "Clocks"]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks in seconds.

    monotonic: never goes back or jumps.
    wall: seconds since the epoch; may be adjusted.
    sleep: waits for a number of seconds.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @property
    def are_real(self) -> bool:
        """Whether this is real time: only then may a run wait for another system."""
        return self.monotonic is time.monotonic


REAL_CLOCKS = Clocks()
