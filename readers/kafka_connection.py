"""One authenticated connection to one Kafka broker, for bulk reading.

kafka-python connects: name resolution, proxies, TLS, the versions that the broker speaks, SASL.
Then we take its socket over, because its event loop reads 4 KiB at a time and copies every byte
several times, while a fetch response should go from the kernel into one buffer that is used again.
A request is sent without waiting for its response: the kernel receives it while we decode the last.

This module alone touches kafka-python's private parts.
"""

from __future__ import annotations

import logging
import ssl
import struct
import traceback
import warnings
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka import errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.retry import TransientError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

__all__ = ["BrokerConnection", "BrokerTooOldError", "decode_response"]

FRAME = struct.Struct(">i")
LARGEST_FRAME = 2**31 - 1
SMALLEST_BUFFER = 64 << 10

# kafka-python logs each failed attempt as an error, though we try again and tell the user once.
# Whoever wants its log sets the level before the first import.
if (_log := logging.getLogger("kafka")).level == logging.NOTSET:
    _log.setLevel(logging.CRITICAL)


_LOOK_AT: dict[type[Exception], tuple[str, ...]] = {
    kafka_errors.IllegalSaslStateError: ("security_protocol", "sasl_mechanism"),
    kafka_errors.UnsupportedSaslMechanismError: ("sasl_mechanism",),
    kafka_errors.SaslAuthenticationFailedError: ("sasl_plain_username", "sasl_plain_password"),
    ssl.SSLCertVerificationError: ("ssl_cafile",),
}
"""The options by which a broker refuses us."""


class BrokerTooOldError(ConnectorError):
    """A broker speaks no version of a request that has what we ask for."""


class BrokerConnection:
    """A blocking socket to the broker at ``address`` (``host:port``); not for several threads.

    ``properties`` are kafka-python's.  Connecting, authentication included, takes ``timeout_s`` at
    most.  Raises TransientError if the broker cannot be reached and ConnectorError if it refuses
    us.  A connection that is lost closes itself.
    """

    def __init__(self, address: str, properties: Mapping[str, Any], timeout_s: float) -> None:
        self.address = address
        properties = {"client_id": "tidegate", **properties}
        self._client_id = properties["client_id"]
        self._socket, self._versions = _connect(address, properties, timeout_s)
        self._last_id = 0
        self._awaited: deque[int] = deque()
        self._buffer = memoryview(bytearray(SMALLEST_BUFFER))

    def send(self, request: Any, timeout_s: float) -> int:
        """Send one of kafka-python's requests, in the newest version both sides speak; return its id.

        Raises TransientError if the connection is lost, BrokerTooOldError if there is no such version.
        """
        try:
            request.API_VERSION = self._versions.api_version(request)
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise BrokerTooOldError(f"the Kafka broker {self.address} is too old: {error}") from error
        self._last_id = (self._last_id + 1) % LARGEST_FRAME
        request.with_header(correlation_id=self._last_id, client_id=self._client_id)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(request.encode(framed=True, header=True))
        except OSError as error:
            raise self._lost(error) from error
        self._awaited.append(self._last_id)
        return self._last_id

    def receive(self, request_id: int, timeout_s: float) -> memoryview:
        """Return the response to the request with that id, header included, without its length.

        The bytes are valid until the next call.  Responses to earlier requests are dropped: who
        asked for them no longer waits.  ``timeout_s`` counts from the last byte that arrived.
        Raises TransientError if the connection is lost or this response was dropped.
        """
        if request_id not in self._awaited:
            raise TransientError(f"the response of the Kafka broker {self.address} was dropped for a later one")
        try:
            self._socket.settimeout(timeout_s)
            while True:
                frame = self._receive_frame()
                expected = self._awaited.popleft()
                if FRAME.unpack_from(frame)[0] != expected:
                    raise ConnectionAbortedError("it answered out of order")
                if expected == request_id:
                    return frame
        except OSError as error:
            raise self._lost(error) from error

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed, by us or by an error."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Close the socket; may be called again."""
        self._socket.close()

    def _receive_frame(self) -> memoryview:
        self._fill(self._buffer[: FRAME.size])
        (size,) = FRAME.unpack_from(self._buffer)
        if size < FRAME.size:
            raise ConnectionAbortedError(f"it sent a frame of {size} bytes")
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        frame = self._buffer[:size]
        self._fill(frame)
        return frame

    def _fill(self, part: memoryview) -> None:
        while part:
            received = self._socket.recv_into(part)
            if not received:
                raise ConnectionResetError("it closed the connection")
            part = part[received:]

    def _lost(self, error: OSError) -> TransientError:
        self.close()
        return TransientError(f"lost the Kafka broker {self.address}: {_reason(error)}")


def decode_response(request: Any, frame: memoryview) -> Any:
    """Return kafka-python's response to a request that was sent; ``frame`` is what came back."""
    return request.header.get_response_class().decode(frame, header=True)


def _connect(address: str, properties: Mapping[str, Any], timeout_s: float) -> tuple[socket.socket, Any]:
    with warnings.catch_warnings():
        # kafka-python leaves the sockets of failed attempts to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        return _authenticate(address, properties, timeout_s)


def _authenticate(address: str, properties: Mapping[str, Any], timeout_s: float) -> tuple[socket.socket, Any]:
    net = NetworkSelector()
    manager = None
    timeout_ms = timeout_s * 1000
    try:
        # It knows one server only, and lives only until that connection is ready.
        manager = KafkaConnectionManager(net, **{**properties, "bootstrap_servers": address})
        (broker,) = manager.cluster.bootstrap_brokers()
        connection = manager.get_connection(broker.node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False)
        net.run(manager.wait_for, connection.init_future, timeout_ms)
        transport = connection.transport
        taken, transport._sock = transport._sock, None  # noqa: SLF001 - closing must spare the socket
    except Exception as error:  # noqa: BLE001 - kafka-python lets errors of sockets, TLS and files through
        _forget_frames(error)
        _check_files(properties)
        reason = _without_secrets(_reason(error), properties)
        # A traceback would show the cause as it is.
        cause = error if reason == _reason(error) else None
        if _may_heal(error):
            raise TransientError(f"cannot connect to {address}: {reason}") from cause
        hint = _hint(error)
        raise ConnectorError(f"the Kafka broker {address} refused the connection: {reason}{hint}") from cause
    else:
        return taken, connection.broker_version_data
    finally:
        if manager is not None:
            manager.close()
        net.close()


def _check_files(properties: Mapping[str, Any]) -> None:
    """Raise OptionError for a file that an option names and that cannot be read; kafka-python does not say which."""
    if not properties.get("security_protocol", "").endswith("SSL"):
        return  # it reads none of them
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"):
        file = properties.get(name)
        try:
            if file is not None:
                Path(file).open("rb").close()
            if name == "ssl_cafile" and file is not None:
                ssl.create_default_context(cafile=file)
        except ssl.SSLError:
            raise OptionError(f"the option {_option(name)!r} is {file!r}, which holds no certificate in PEM") from None
        except OSError as problem:
            raise OptionError(f"the option {_option(name)!r} is {file!r}: {problem.strerror}") from None


def _option(name: str) -> str:
    return f"kafka.{name.replace('_', '.')}"


def _hint(error: BaseException | None) -> str:
    """Return which options to look at."""
    while error is not None:
        for kind, options in _LOOK_AT.items():
            if isinstance(error, kind):
                return f"; look at {' and '.join(_option(name) for name in options)}"
        error = error.__context__
    return ""


def _forget_frames(error: BaseException | None) -> None:
    """Let go of what the error's frames hold, sockets above all."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _may_heal(error: Exception) -> bool:
    if isinstance(error.__context__, ssl.SSLCertVerificationError):
        return False
    return isinstance(error, kafka_errors.KafkaError) and error.retriable


def _without_secrets(text: str, properties: Mapping[str, Any]) -> str:
    login, _, _ = str(properties.get("proxy_url") or "").rpartition("@")
    login = login.partition("//")[2] or login
    known = (properties.get("sasl_plain_password"), properties.get("ssl_password"), login, login.partition(":")[2])
    for secret in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(str(secret), "***")
    return text


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | kafka_errors.KafkaTimeoutError):
        return "it does not answer"
    return str(error)
