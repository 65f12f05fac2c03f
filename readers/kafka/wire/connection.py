"""One authenticated connection to one Kafka broker, for bulk reading.

A request is sent without waiting for its response.  The kernel receives the response while we decode the last one.  All
responses use one buffer.

kafka-python's own connections (``kafka.net``, as of 3.0) read 4 KiB at a time, and only while their event loop runs.
``login.py`` and ``frames.py`` say what else they lack.
"""

from __future__ import annotations

import errno
import re
import ssl
import struct
import time
import traceback
from collections import deque
from collections.abc import Mapping
from typing import Any

from kafka import errors as kafka_errors

from tidegate.errors import (
    BrokerTooOldError,
    ConnectorError,
    CorruptDataError,
    OptionError,
    RefusedError,
    TransientError,
)
from tidegate.readers.kafka.wire.frames import FrameSocket, FrameTooLargeError
from tidegate.readers.kafka.wire.login import log_in
from tidegate.readers.kafka.wire.tls import look_at_for
from tidegate.readers.kafka.wire.tokens import TokenError

CORRELATION = struct.Struct(">i")
LARGEST_ID = 2**31 - 1
_PROTOCOL_HINT = "; look at kafka.security.protocol"
_WITHIN_PYTHON = re.compile(r" \(_ssl\.c:\d+\)")

_LOOK_AT: dict[type[Exception], str] = {
    kafka_errors.IllegalSaslStateError: "kafka.security.protocol and kafka.sasl.mechanism",
    kafka_errors.UnsupportedSaslMechanismError: "kafka.sasl.mechanism",
    kafka_errors.SaslAuthenticationFailedError: "kafka.sasl.*",
    FrameTooLargeError: "kafka.security.protocol and kafka.bootstrap.servers",
    CorruptDataError: "kafka.security.protocol and kafka.bootstrap.servers",
    TokenError: "kafka.sasl.*",
}
"""The options that explain a refusal."""


class BrokerConnection:
    """A blocking connection to the broker at ``address`` (``host:port``); not thread-safe.

    ``properties`` are kafka-python's.  Connecting, authentication included, takes ``timeout_s`` at most.  Raises
    TransientError if the broker cannot be reached, RefusedError if it refuses us, and OptionError for a file that
    cannot be used.  A lost connection closes itself.
    """

    def __init__(self, address: str, properties: Mapping[str, Any], timeout_s: float) -> None:
        self.address = address
        self._properties = {"client_id": "tidegate", **properties}
        self._socket, self._versions = _connect(address, self._properties, timeout_s)
        self._last_id = 0
        self._awaited: deque[int] = deque()
        self._was_answered = False

    def send(self, request: Any, timeout_s: float) -> int:
        """Send one of kafka-python's requests, in the newest version that both sides support; return its id.

        Raises TransientError if the connection is lost, BrokerTooOldError if there is no such version.
        """
        try:
            request.API_VERSION = self._versions.api_version(request)
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise BrokerTooOldError(f"the Kafka broker {self.address} is too old: {error}") from error
        self._last_id = (self._last_id + 1) % LARGEST_ID
        request.with_header(correlation_id=self._last_id, client_id=self._properties["client_id"])
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.send(request.encode(framed=True, header=True), deadline)
        except OSError as error:
            raise self._lost(error) from error
        self._awaited.append(self._last_id)
        return self._last_id

    def receive(self, request_id: int, timeout_s: float) -> memoryview:
        """Return the response to the request with that id, header included, without its length.

        The bytes are valid until the next call.  Responses to earlier requests are dropped: no caller waits for them.
        ``timeout_s`` is for the whole response, however slowly it comes.  Raises TransientError if the connection is
        lost or this response was dropped.  Raises RefusedError if the broker does not serve us, or sends more than we
        accept.
        """
        if request_id not in self._awaited:
            raise TransientError(f"the response of the Kafka broker {self.address} was dropped for a later one")
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                frame = self._socket.receive(deadline)
                expected = self._awaited.popleft()
                if CORRELATION.unpack_from(frame)[0] != expected:
                    raise ConnectionAbortedError("it answered out of order")
                self._was_answered = True
                if expected == request_id:
                    return frame
        except (OSError, FrameTooLargeError) as error:
            raise self._lost(error) from error

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed, by us or by an error."""
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        """Return the socket's file descriptor, -1 once it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket; may be called again."""
        self._socket.close()

    def _lost(self, error: OSError | FrameTooLargeError) -> ConnectorError:
        self.close()
        sentence = f"lost the Kafka broker {self.address}: {_reason(error)}"
        if isinstance(error, FrameTooLargeError):
            return RefusedError(f"{sentence}; look at kafka.receive.message.max.bytes")
        # A broker that requires a login sends its versions to every client, and then closes the connection.
        return TransientError(f"{sentence}{_PROTOCOL_HINT if _is_cut_off(error) and not self._was_answered else ''}")


def _connect(address: str, properties: Mapping[str, Any], timeout_s: float) -> tuple[FrameSocket, Any]:
    try:
        return log_in(address, properties, timeout_s)
    except OptionError:
        raise
    except Exception as error:  # noqa: BLE001 - of sockets, TLS, SASL mechanisms and their libraries
        traceback.clear_frames(error.__traceback__)  # these hold logins
        failure = _failure(address, properties, error)
        # A traceback would show the cause as it is.
        raise failure from (error if str(error) in str(failure) else None)


def _failure(address: str, properties: Mapping[str, Any], error: Exception) -> ConnectorError:
    """Return the reason why there is no connection: TransientError if trying again may help, otherwise RefusedError."""
    reason = _without_secrets(_reason(error), properties)
    if _may_heal(error):
        hint = _PROTOCOL_HINT if _is_cut_off(error) else ""
        return TransientError(f"cannot connect to {address}: {reason}{hint}")
    options = _look_at(error)
    hint = f"; look at {options}" if options else ""
    if isinstance(error, TokenError):
        return RefusedError(f"cannot connect to {address}: {reason}{hint}")
    return RefusedError(f"the Kafka broker {address} refused the connection: {reason}{hint}")


def _is_cut_off(error: Exception) -> bool:
    """Return whether the broker closed the connection without a word, as it does to clients of another protocol."""
    if isinstance(error, ssl.SSLError):
        return not look_at_for(error)
    is_unconnected = isinstance(error, OSError) and error.errno == errno.ENOTCONN
    return is_unconnected or isinstance(error, ConnectionResetError | BrokenPipeError)


def _may_heal(error: Exception) -> bool:
    if isinstance(error, TokenError):
        return error.may_heal
    if isinstance(error, ssl.SSLError):
        return not look_at_for(error)
    return isinstance(error, OSError) or (isinstance(error, kafka_errors.KafkaError) and error.retriable)


def _look_at(error: Exception) -> str:
    """Return the options to look at."""
    if isinstance(error, ssl.SSLError):
        return look_at_for(error)
    return next((options for kind, options in _LOOK_AT.items() if isinstance(error, kind)), "")


def _without_secrets(text: str, properties: Mapping[str, Any]) -> str:
    of_options = [*properties.items(), *properties.get("sasl_oauth_options", {}).items()]
    secrets = [str(value) for name, value in of_options if "password" in name or "secret" in name.lower()]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return str(error) if error.args and "timed out" not in str(error) else "it does not answer"
    if _is_cut_off(error):
        return "it closed the connection"
    return _WITHIN_PYTHON.sub("", str(error))
