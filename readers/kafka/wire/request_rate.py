"""Limits how many requests are sent to brokers in a second, for work that must not disturb others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class RequestRate:
    """Spreads requests evenly over time, whichever client and connection sends them.

    per_second: at most so many begin in any second.
    clock, sleep: those of ``time``.
    """

    def __init__(
        self,
        per_second: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pause_s = 1 / per_second
        self._clock, self._sleep = clock, sleep
        self._next_s = clock()

    def wait(self) -> None:
        """Return when the next request may be sent."""
        while (wait_s := self._next_s - self._clock()) > 0:
            self._sleep(wait_s)
        self._next_s = self._clock() + self._pause_s

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Hold back the requests that this thread sends in the context."""
        token = _RATE.set(self)
        try:
            yield
        finally:
            _RATE.reset(token)


_RATE: ContextVar[RequestRate | None] = ContextVar("request_rate", default=None)


def wait_for_turn() -> None:
    """Return when this thread may send a request."""
    if (rate := _RATE.get()) is not None:
        rate.wait()
