"""One HTTP request with a deadline and a limit of bytes, for schema registries and token endpoints."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib import request
from urllib.error import URLError

MOST_BYTES = 16 << 20  # of an answer
_PART_BYTES = 64 << 10


class NoAnswerError(Exception):
    """The server cannot be reached, or breaks off; the text shows nothing that was sent to it."""


class Answer(NamedTuple):
    """What a server answered; a redirect is also an answer, and is not followed."""

    status: int
    content: bytes

    @property
    def json(self) -> Any:
        """The body as JSON; None: it is something else."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None


def ask(
    url: str,
    headers: Mapping[str, str],
    seconds: float,
    *,
    form: bytes | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send a request, through the proxy of the environment if there is one.

    seconds: for the body, and for each wait before it.
    form: what is posted; None: the request is a GET.

    Raises NoAnswerError, also for an answer of more than MOST_BYTES.
    """
    asked = request.Request(url, data=form, headers=dict(headers))  # noqa: S310 - callers check the scheme
    opener = request.build_opener(_AllStatuses(), request.HTTPSHandler(context=tls))
    deadline = time.monotonic() + seconds
    try:
        with opener.open(asked, timeout=seconds) as response:
            return Answer(response.status, _body(response, deadline))
    except URLError as error:
        raise NoAnswerError(f"cannot be reached: {error.reason}") from None
    except OSError as error:
        raise NoAnswerError(f"does not answer: {error}") from None
    except (HTTPException, ValueError) as error:  # their texts may show what was sent
        raise NoAnswerError(f"breaks off ({type(error).__name__})") from None


def _body(response: HTTPResponse, deadline: float) -> bytes:
    content = bytearray()
    while part := response.read1(_PART_BYTES):
        content += part
        if len(content) > MOST_BYTES:
            raise NoAnswerError(f"answers with more than {MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")
    if response.length:
        raise NoAnswerError("breaks off")
    return bytes(content)


class _AllStatuses(request.HTTPErrorProcessor):
    """Lets every status pass, so that no redirect gets a login and no refusal is an exception."""

    def http_response(self, _: Any, response: Any) -> Any:
        return response

    def https_response(self, _: Any, response: Any) -> Any:
        return response
