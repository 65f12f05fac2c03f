"""The clocks of a run; tests replace them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["REAL_CLOCKS", "Clocks"]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks in seconds.

    monotonic: runs evenly.
    wall: since the epoch; may be set.
    sleep: lets time pass.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @property
    def are_real(self) -> bool:
        """Whether time passes by itself: only then may a run wait for another system."""
        return self.monotonic is time.monotonic


REAL_CLOCKS = Clocks()
