"""Retries one operation until its deadline, with growing pauses between the attempts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tidegate.errors import DeadlineError, TransientError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


class Deadline:
    """The time that one operation has, retries included.

    operation: completes the sentence "cannot ...", and names the servers.
    seconds: the number of seconds from now on that the operation may take.
    pauses_s: seconds before the second attempt, and the maximum before a later one.

    Use it only for errors that a retry may heal.  The error at the end names the first cause, and the last one that
    differs from it.  An attempt that the deadline cut short adds no cause.
    """

    def __init__(
        self,
        operation: str,
        seconds: float,
        *,
        pauses_s: tuple[float, float] = (FIRST_PAUSE_S, LONGEST_PAUSE_S),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.operation = operation
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._started = clock()
        self._pause_s, self._longest_pause_s = pauses_s
        self._causes: list[str] = []

    @property
    def remaining_s(self) -> float:
        """The seconds left, at least 0.001, since a socket's time-out must not be zero."""
        return max(0.001, self._seconds - self.elapsed_s)

    @property
    def elapsed_s(self) -> float:
        """The seconds since the operation began."""
        return self._clock() - self._started

    def pause(self, cause: TransientError) -> None:
        """Sleep before the next attempt, each time longer, with jitter.

        Raises DeadlineError when no time is left; its sentence names the operation and the causes.
        """
        is_over = self.elapsed_s >= self._seconds
        if not self._causes or (not is_over and str(cause) != self._causes[0]):
            self._causes[1:] = []
            self._causes.append(str(cause))
        if is_over:
            why = "; at last: ".join(self._causes)
            # The sentence names the causes, so a chain of tracebacks would only repeat them.
            raise DeadlineError(f"cannot {self.operation} within {self._seconds:g} s: {why}") from None
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 - jitter is no secret
        self._sleep(min(self._pause_s * jitter, self.remaining_s))
        self._pause_s = min(self._pause_s * 2, self._longest_pause_s)
