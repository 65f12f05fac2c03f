"""The clocks of a run, which tests replace, and the last pauses between runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

_MOST_PAUSES = 8
_Any = TypeVar("_Any")


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


def with_pause(pauses: Sequence[_Any], pause: _Any) -> list[_Any]:
    """Return the last pauses, with one more."""
    return [*pauses, pause][-_MOST_PAUSES:]


def usual_ms(pauses_ms: Sequence[int]) -> int:
    """Return the usual one of the last pauses in ms; 0: there was none.

    It is the second longest: neither an outage nor a run that is repeated once or twice is usual.  Of fewer than three
    pauses it is the longest, because the other one may be that before a repeated run.
    """
    by_length = sorted(pauses_ms)
    return by_length[-2 if len(by_length) > 2 else -1] if by_length else 0


class Pause(NamedTuple):
    """The time between the begins of two bounded runs.

    certain_ms: how much has passed even if a driver's clock was wrong; in a slow topic far less than the clock says.
    clock_ms: what the wall clock says.
    """

    certain_ms: int = 0
    clock_ms: int = 0

    @classmethod
    def usual(cls, pauses: Sequence[Pause]) -> Pause:
        """Return the usual times of the last pauses."""
        return cls(usual_ms([pause.certain_ms for pause in pauses]), usual_ms([pause.clock_ms for pause in pauses]))
