"""Tokens for OAUTHBEARER: from a token endpoint (KIP-768), a file, or a user's function."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from tidegate.errors import OptionError
from tidegate.kafka_private import AbstractTokenProvider
from tidegate.readers.http import Answer, NoAnswerError, ask
from tidegate.readers.kafka.wire.frames import remaining_s

_USED_OF_LIFE = 0.8  # as Java's sasl.login.refresh.window.factor
_STATUS_THAT_MAY_HEAL = {408, 429}
_LONGEST_S = 30.0  # of an endpoint, for its answer
_CODES = {  # of RFC 6749, sections 4.1.2.1 and 5.2; any other text may repeat the client's secret
    "access_denied",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "server_error",
    "temporarily_unavailable",
    "unauthorized_client",
    "unsupported_grant_type",
}
_CALLBACK = "sasl_login_callback_handler_class"


class TokenError(Exception):
    """There is no token; ``may_heal`` says whether there may be one later."""

    def __init__(self, sentence: str, *, may_heal: bool = False) -> None:
        super().__init__(sentence)
        self.may_heal = may_heal


class _Token(NamedTuple):
    text: str
    fetched_at_s: float
    expires_at_s: float | None


_tokens: dict[str, _Token] = {}
_locks: dict[str, threading.Lock] = {}  # one for each login, so that a slow endpoint delays no other login


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """The token of one login, which all connections of a process share until four fifths of its life are over.

    ``token`` raises TokenError, OSError, and OptionError for a function that does not exist.
    """

    def __init__(self, properties: Mapping[str, Any], deadline: float) -> None:
        super().__init__()
        self._properties = properties
        self._options: Mapping[str, str] = properties.get("sasl_oauth_options", {})
        self._deadline = deadline
        self._handed_out = ""

    def token(self) -> str:
        """Return a token that is still valid."""
        key = self._key
        lock = _locks.setdefault(key, threading.Lock())
        if not lock.acquire(timeout=remaining_s(self._deadline)):
            raise TokenError("another connection still waits for the token of this login", may_heal=True)
        try:
            known = _tokens.get(key)
            if known is None or not _is_fresh(known):
                _tokens[key] = known = self._new()
        finally:
            lock.release()
        self._handed_out = known.text
        return known.text

    def forget(self) -> None:
        """Let the next login fetch another token, because a broker has refused this one."""
        key = self._key
        known = _tokens.get(key)
        if known is not None and known.text == self._handed_out:  # another connection may have fetched a newer one
            _tokens.pop(key, None)

    def extensions(self) -> dict[str, str]:
        """Return what the login module adds to the token, such as ``extension_logicalCluster``."""
        prefix = "extension_"
        return {name.removeprefix(prefix): value for name, value in self._options.items() if name.startswith(prefix)}

    @property
    def _key(self) -> str:
        of_login = {name: value for name, value in self._properties.items() if name.startswith("sasl_")}
        return repr(sorted(of_login.items(), key=str))

    def _new(self) -> _Token:
        if (name := self._properties.get(_CALLBACK)) is not None:
            return self._of_function(name)
        url = self._properties["sasl_oauthbearer_token_endpoint_url"]
        if url.startswith("file:"):
            return _token(Path(unquote(urlsplit(url).path)).read_text(encoding="utf-8").strip(), time.time())
        return self._of_endpoint(url)

    def _of_function(self, name: str) -> _Token:
        function = _function(name)
        try:
            answer = function(dict(self._options))
        except Exception as error:
            sentence = f"the function {name} gives no token: {type(error).__name__}: {error}"
            raise TokenError(sentence, may_heal=isinstance(error, OSError)) from error
        text, expires_at_ms = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        if not isinstance(text, str) or not text:
            raise TokenError(f"the function {name} gives no token, but a {type(answer).__name__}")
        try:
            return _token(text, None if expires_at_ms is None else float(expires_at_ms) / 1000)
        except (TypeError, ValueError):
            raise TokenError(f"the function {name} gives no number as the end of the token's life") from None

    def _of_endpoint(self, url: str) -> _Token:
        try:
            answer = ask(url, self._headers(), min(remaining_s(self._deadline), _LONGEST_S), form=self._question())
        except NoAnswerError as error:
            raise TokenError(f"the token endpoint {error}", may_heal=True) from None
        if answer.status != HTTPStatus.OK:
            may_heal = answer.status >= 500 or answer.status in _STATUS_THAT_MAY_HEAL
            sentence = f"the token endpoint answers {answer.status} {_reason(answer)}".rstrip()
            raise TokenError(sentence, may_heal=may_heal)
        try:
            text, life_s = answer.json["access_token"], float(answer.json.get("expires_in") or "inf")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            text = None
        if not isinstance(text, str) or not text or not (text.isascii() and text.isprintable()):
            raise TokenError("the token endpoint answers without an access_token")
        return _token(text, None if math.isinf(life_s) else time.time() + life_s)

    def _question(self) -> bytes:
        fields = {"grant_type": "client_credentials"}
        scope = self._properties.get("sasl_oauthbearer_scope") or self._options.get("scope")
        return urlencode(fields | ({"scope": scope} if scope else {})).encode()

    def _headers(self) -> dict[str, str]:
        prefix = "sasl_oauthbearer_client_credentials_client"
        # The properties come before the login module, as in Java.
        client = self._properties.get(f"{prefix}_id") or self._options["clientId"]
        secret = self._properties.get(f"{prefix}_secret") or self._options["clientSecret"]
        login = base64.b64encode(f"{client}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {login}", "Accept": "application/json"}


def _is_fresh(token: _Token) -> bool:
    if token.expires_at_s is None:
        return False
    return time.time() < token.fetched_at_s + _USED_OF_LIFE * (token.expires_at_s - token.fetched_at_s)


def _token(text: str, expires_at_s: float | None) -> _Token:
    """Return a token with the end of its life: its own claim (RFC 7519), or else the given one."""
    return _Token(text, time.time(), _end_of_life(text) or expires_at_s)


def _end_of_life(token: str) -> float | None:
    try:
        _, claims, _ = token.split(".")
        decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(decoded["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _reason(answer: Answer) -> str:
    """Return the code that RFC 6749 has for a refusal, such as invalid_client, or else the name of the status."""
    try:
        code = answer.json["error"]
    except (KeyError, TypeError):
        code = None
    if isinstance(code, str) and code in _CODES:
        return code
    return HTTPStatus(answer.status).phrase if answer.status in {*HTTPStatus} else ""


def _function(name: str) -> Callable[[dict[str, str]], Any]:
    package, _, function = name.partition(":")
    option = "the option 'kafka.sasl.login.callback.handler.class'"
    try:
        callback: Callable[[dict[str, str]], Any] = resolve_name(name)
    except ImportError as error:
        raise OptionError(f"{option} is {name!r}, which this process cannot import: {error}") from None
    except AttributeError:
        raise OptionError(f"{option} is {name!r}, but {package} has no function {function}") from None
    return callback
