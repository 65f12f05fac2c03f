"""The messages of a decoder process to its parent.

They are JSON and are checked, because a process that decodes hostile bytes may send anything.
"""

from __future__ import annotations

import base64
import json
from dataclasses import astuple
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, OptionError
from tidegate.readers.formats.guarded.channel import MalformedMessageError
from tidegate.readers.objects.values import ChunkSurvey, S3Object, TimeRange

__all__ = [
    "BATCH",
    "FETCH",
    "GIVEN",
    "IN_VAIN",
    "RAISES",
    "READY",
    "RETURNS",
    "WRITE",
    "AskedInVain",
    "Look",
    "error_of",
    "packed",
    "packed_error",
    "unpacked",
]

READY, FETCH, WRITE, BATCH, RETURNS, RAISES = "ready", "fetch", "write", "batch", "returns", "raises"
"""The subjects of messages."""

GIVEN, IN_VAIN = b"given", b"in vain"
"""The answers to FETCH and WRITE."""

_SHAPES: dict[str, tuple[type, ...]] = {
    READY: (),
    FETCH: (int, int, int, int),  # the numbers of the call and of the look, and the range
    WRITE: (int, str, int),  # the number of the call, the file, and the number of records
    BATCH: (),
    RETURNS: (list,),
    RAISES: (str, str),
}


class Look(NamedTuple):
    """An object that a call reads, and the part of it that the parent sends with the call.

    arguments: the arguments of the method.
    begin: the offset of the part in the object.
    size: the size of the part in bytes.
    """

    obj: S3Object
    arguments: tuple[Any, ...]
    begin: int
    size: int


class AskedInVain(RuntimeError):  # noqa: N818 - it never leaves these two processes
    """The parent could not fetch or write; it knows the reason."""


_ERRORS = (BadRecordError, CorruptDataError, OptionError, ConnectorError, MemoryError, pa.ArrowException)
"""The classes of errors that reach the parent; the first that fits counts.  Of other errors, only the text does."""


def packed(kind: str, *rest: Any) -> bytes:
    """Return a message as bytes."""
    return json.dumps([kind, *rest], default=_packed).encode()


def unpacked(data: bytes) -> tuple[Any, ...]:
    """Return a message; raises MalformedMessageError for other bytes."""
    try:
        kind, *rest = json.loads(data, object_hook=_unpacked)
        shape = _SHAPES[kind]
    except Exception as problem:  # noqa: BLE001 - whatever the bytes lead to
        raise MalformedMessageError(f"it sends no message: {type(problem).__name__}") from None
    if tuple(map(type, rest)) != shape:
        raise MalformedMessageError(f"it sends other values than belong to {kind!r}")
    return kind, *rest


def packed_error(problem: Exception) -> tuple[str, str]:
    """Return the values of the message RAISES for an error."""
    name = next((kind.__name__ for kind in _ERRORS if isinstance(problem, kind)), "")
    return name, str(problem) if name else f"{type(problem).__name__}: {problem}"


def error_of(name: str, sentence: str) -> Exception:
    """Return the error in a message RAISES; a RuntimeError if its class is not in ``_ERRORS``."""
    return next((kind for kind in _ERRORS if kind.__name__ == name), RuntimeError)(sentence)


def _packed(value: Any) -> dict[str, Any]:
    if isinstance(value, pa.Schema):
        return {"schema": base64.b64encode(value.serialize()).decode()}
    return {"survey": astuple(value)}


def _unpacked(packed_value: dict[str, Any]) -> pa.Schema | ChunkSurvey:
    [(kind, value)] = packed_value.items()
    if kind == "schema":
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value)))
    start, end, rows, times, rows_without_time, exact, malformed_rows = value
    span = None if times is None else TimeRange(*times)
    if {type(number) for number in (start, end, rows, rows_without_time, malformed_rows, *(span or ()))} != {int}:
        raise TypeError("not all of a survey's numbers are whole")
    return ChunkSurvey(start, end, rows, span, rows_without_time, bool(exact), malformed_rows)
