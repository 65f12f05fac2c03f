"""Packs the parts of an offset that grow with the number of splits.

JSON is compressed unchanged.  Numbers are compressed by planes: first the lowest byte of each, then the next byte.  So
the low bytes, which are random, do not hide the high bytes, which are similar.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

from tidegate.enumerators.contract import Json

__all__ = ["pack", "pack_numbers", "unpack", "unpack_numbers"]

_MOST = 64 << 20  # bytes: the most that a damaged text may decompress to
_LEVEL = 6
_NUMBER = np.dtype("<i8")


def pack(parts: Json) -> str:
    """Return parts of an offset as short text; equal parts give equal text."""
    return _deflated(json.dumps(parts, separators=(",", ":")).encode())


def unpack(packed: Any) -> dict[str, Any]:
    """Return the parts from a text that ``pack`` returned.  Raises ValueError or TypeError for anything else."""
    parts = json.loads(_inflated(packed))
    if not isinstance(parts, dict):
        raise TypeError(packed)
    return parts


def pack_numbers(numbers: Collection[int]) -> str:
    """Return numbers of 64 bits as short text."""
    count = len(numbers)
    planes = np.fromiter(numbers, _NUMBER, count).view(np.uint8).reshape(count, _NUMBER.itemsize).T
    return _deflated(planes.tobytes())


def unpack_numbers(packed: Any) -> list[int]:
    """Return the numbers that ``pack_numbers`` packed.  Raises ValueError or TypeError for anything else."""
    planes = np.frombuffer(_inflated(packed), np.uint8).reshape(_NUMBER.itemsize, -1)
    numbers: list[int] = np.ascontiguousarray(planes.T).view(_NUMBER).ravel().tolist()
    return numbers


def _deflated(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, _LEVEL)).decode()


def _inflated(packed: Any) -> bytes:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(base64.b64decode(packed, validate=True), _MOST)
    except zlib.error as error:
        raise ValueError(packed) from error
    if not stream.eof:
        raise ValueError(packed)
    return content
