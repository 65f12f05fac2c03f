"""One HTTP request, whose time and answer are bounded whatever the server sends.

The standard library's time-outs are for each read of a socket, so a server that sends a byte a second holds a request
for hours, or for ever with endless headers.  Here each read gets the time that is left of the whole request.
"""

from __future__ import annotations

import io
import json
import socket
import ssl
import time
from collections.abc import Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib import request
from urllib.error import URLError

_LEAST_S = 0.001  # a socket's time-out of 0 means something else


class NoAnswerError(Exception):
    """The server cannot be reached, or breaks off; the text shows nothing that was sent to it."""


class Answer(NamedTuple):
    """What a server answered; no content if it has more bytes than are taken.  Redirects are not followed."""

    status: int
    content: bytes | None

    @property
    def json(self) -> Any:
        """The body as JSON; None: it is none, or nested too deeply."""
        try:
            return json.loads(self.content or b"")
        except (ValueError, RecursionError):
            return None


def ask(
    url: str,
    headers: Mapping[str, str],
    deadline: float,
    *,
    most_bytes: int,
    form: bytes | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send a request, through the proxy of the environment if there is one.

    deadline: a time of ``time.monotonic()`` for TLS, headers and body.  Connecting may take as long for each address
        of a name.
    form: what is posted; None: the request is a GET.

    Raises NoAnswerError.
    """
    asked = request.Request(url, data=form, headers=dict(headers))  # noqa: S310 - callers check the scheme
    opener = request.build_opener(_AllStatuses(), _Http(deadline), _Https(deadline, tls))
    try:
        with opener.open(asked, timeout=_remaining_s(deadline)) as response:
            content = response.read(most_bytes + 1)
            return Answer(response.status, content if len(content) <= most_bytes else None)
    except URLError as error:
        raise NoAnswerError(f"cannot be reached: {error.reason}") from None
    except OSError as error:
        raise NoAnswerError(f"does not answer: {error}") from None
    except (HTTPException, ValueError) as error:  # their texts may show what was sent
        raise NoAnswerError(f"breaks off ({type(error).__name__})") from None


def _remaining_s(deadline: float) -> float:
    return max(deadline - time.monotonic(), _LEAST_S)


class _AllStatuses(request.HTTPErrorProcessor):
    """Lets every status pass: no redirect is followed, and none is an error."""

    def http_response(self, _: Any, response: Any) -> Any:
        return response

    def https_response(self, _: Any, response: Any) -> Any:
        return response


class _Http(request.HTTPHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._connection = partial(_connection, HTTPConnection, deadline)

    def http_open(self, asked: request.Request) -> Any:
        return self.do_open(self._connection, asked)


class _Https(request.HTTPSHandler):
    def __init__(self, deadline: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(context=tls)
        self._connection = partial(_connection, HTTPSConnection, deadline, context=tls)

    def https_open(self, asked: request.Request) -> Any:
        return self.do_open(self._connection, asked)


def _connection(kind: type[HTTPConnection], deadline: float, host: str, **more: Any) -> HTTPConnection:
    connection = kind(host, **more)
    connection.response_class = partial(_response, deadline)  # type: ignore[assignment]
    return connection


def _response(deadline: float, sock: socket.socket, *given: Any, **more: Any) -> HTTPResponse:
    response = HTTPResponse(sock, *given, **more)
    response.fp.close()
    response.fp = io.BufferedReader(_Reads(sock, deadline))
    return response


class _Reads(io.RawIOBase):
    """Reads a socket; each read has the time that is left."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self._raw: io.RawIOBase = sock.makefile("rb", 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() >= self._deadline:
            raise TimeoutError("timed out")
        self._sock.settimeout(_remaining_s(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
