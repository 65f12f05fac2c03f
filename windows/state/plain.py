"""Values of state as bytes: plain values as JSON, and only those of other classes pickled inside it."""

from __future__ import annotations

import json
import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

__all__ = ["of_bytes", "pickled", "to_bytes"]

_VERSION = b"\x01"
_PICKLED = b"\x80"
"""The first byte of the version before, which was pickled whole."""
_DEEPEST = 6  # a value inside so many others is pickled
_JSON = {type(None), bool, int, float, str}
_WRITE: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    bytes: ("bytes", lambda value: b64encode(value).decode()),
    Decimal: ("decimal", str),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "bytes": b64decode,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "tuple": tuple,
    "dict": dict,
    "pickle": lambda text: pickle.loads(b64decode(text)),  # noqa: S301 - what this module pickled itself
}


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes.  Raises PicklingError for a part that is not plain and cannot be pickled."""
    return _VERSION + json.dumps(_plain(value, 0), separators=(",", ":")).encode()


def of_bytes(stored: bytes) -> Any:
    """Return the value of bytes, also of those of the version before."""
    if stored[:1] == _PICKLED:
        return pickle.loads(stored)  # noqa: S301 - what the version before pickled itself
    return json.loads(stored[len(_VERSION) :], object_hook=_read)


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _JSON:
        return value
    if depth < _DEEPEST:
        if kind is list:
            return [_plain(item, depth + 1) for item in value]
        if kind is tuple:
            return {"tuple": [_plain(item, depth + 1) for item in value]}
        if kind is dict:
            return {"dict": [[_plain(key, depth + 1), _plain(held, depth + 1)] for key, held in value.items()]}
        if kind in _WRITE:
            name, write = _WRITE[kind]
            return {name: write(value)}
    return {"pickle": b64encode(pickled(value)).decode()}


def pickled(value: Any) -> bytes:
    """Return a value pickled.  Raises PicklingError whatever the value raises."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # a value of the user may raise anything
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _read(held: dict[str, Any]) -> Any:
    ((name, value),) = held.items()
    return _READ[name](value)
