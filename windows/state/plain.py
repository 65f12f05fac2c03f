"""Values of state as bytes: plain values as JSON, and only those of other classes pickled inside it."""

from __future__ import annotations

import json
import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

_VERSION = b"\x01"
_DEEPEST = 6  # a value inside so many others is pickled
_INT64 = 1 << 63  # Python does not write numbers of thousands of digits, so those beyond 64 bits are pickled
_JSON = {type(None), bool, float, str}
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
    text = json.dumps(_plain(value, 0), separators=(",", ":"), ensure_ascii=False)
    return _VERSION + text.encode("utf-8", "surrogatepass")  # an escape would make two surrogates one character


def of_bytes(stored: bytes) -> Any:
    """Return the value of bytes."""
    return json.loads(stored[len(_VERSION) :], object_hook=_read)


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _JSON or (kind is int and -_INT64 <= value < _INT64):
        return value
    if depth < _DEEPEST:
        if kind is list:
            return [_plain(item, depth + 1) for item in value]
        if kind is tuple:
            return {"tuple": [_plain(item, depth + 1) for item in value]}
        if kind is dict:
            return {"dict": [[_plain(key, depth + 1), _plain(held, depth + 1)] for key, held in value.items()]}
        if kind in _WRITE and _is_whole(value):
            name, write = _WRITE[kind]
            return {name: write(value)}
    return {"pickle": b64encode(pickled(value)).decode()}


def _is_whole(value: Any) -> bool:
    """Return whether the text of a time has all of it: it has no rules of a time zone, and no fold."""
    zone = getattr(value, "tzinfo", None)
    return (zone is None or zone is timezone.utc) and not getattr(value, "fold", 0)


def pickled(value: Any) -> bytes:
    """Return a value pickled.  Raises PicklingError whatever the value raises."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # a value of the user may raise anything
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _read(held: dict[str, Any]) -> Any:
    ((name, value),) = held.items()
    return _READ[name](value)
