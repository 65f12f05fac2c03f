"""Failed attempts to connect to brokers, and the pauses and time-outs that follow from them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.readers.kafka.config import KafkaConnectionConfig


_SETUP, _LONGEST_SETUP = "socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"


class _Failures(NamedTuple):
    number: int
    until: float
    last: str


class FailedConnections:
    """Counts how many times in a row each broker could not be reached.

    As in Java, the pause before the next attempt doubles with each failure, up to a limit (``reconnect.backoff.ms``).
    So does the time that an attempt may take (``socket.connection.setup.timeout.ms``).
    """

    def __init__(self, config: KafkaConnectionConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._properties = config.properties
        self._pauses_s = config.reconnect_pauses_s
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def check(self, address: str) -> None:
        """Raise TransientError, with the last reason, if it is too early for another attempt."""
        failures = self._failures.get(address)
        if failures is not None and self._clock() < failures.until:
            raise TransientError(failures.last)

    def add(self, address: str, error: TransientError) -> None:
        """Count one more failure."""
        number = self._number(address)
        first_s, longest_s = self._pauses_s
        pause_s = min(first_s * 2.0 ** min(number, 32), longest_s)
        self._failures[address] = _Failures(number + 1, self._clock() + pause_s, str(error))

    def forget(self, address: str) -> None:
        """Start again from zero after a success."""
        self._failures.pop(address, None)

    def within(self, address: str) -> Mapping[str, Any]:
        """Return the properties for the next attempt, including the time that it may take."""
        first_ms = self._properties.get(_SETUP)
        longest_ms = self._properties.get(_LONGEST_SETUP, first_ms)
        if first_ms is None:
            return self._properties
        grown_ms = first_ms * 2 ** min(self._number(address), 32)
        return {**self._properties, _SETUP: min(grown_ms, max(first_ms, longest_ms))}

    def _number(self, address: str) -> int:
        failures = self._failures.get(address)
        return 0 if failures is None else failures.number
