"""Packs the parts of an offset that grow with the number of splits, because Spark keeps a hundred offsets, each twice.

JSON is compressed by bzip2, which spends the fewest bytes on digits.  Numbered names compress badly, so the steps
between their numbers stand for them:

    ["orders-0", "orders-1", "orders-2", "orders-7"]  as  [["orders-", [0, 1, 1, 5]]]
"""

from __future__ import annotations

import base64
import bz2
import json
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any

from tidegate.enumerators.contract import Json

_MOST = 64 << 20  # bytes: the most that a damaged text may decompress to
_COLLECTIONS = 8  # whose order is remembered: plan after plan packs the same names
_DIGITS, _MOST_DIGITS = "0123456789", 18


def pack(parts: Json) -> str:
    """Return parts of an offset as short text; equal parts give equal text."""
    return base64.b64encode(bz2.compress(json.dumps(parts, separators=(",", ":")).encode(), 1)).decode()


def unpack(packed: Any) -> dict[str, Any]:
    """Return the parts from a text that ``pack`` returned.  Raises ValueError or TypeError for anything else."""
    stream = bz2.BZ2Decompressor()
    try:
        content = stream.decompress(base64.b64decode(packed, validate=True), _MOST)
    except OSError as error:
        raise ValueError(packed) from error
    parts = json.loads(content) if stream.eof else None
    if not isinstance(parts, dict):
        raise TypeError(packed)
    return parts


def pack_names(names: Collection[str]) -> tuple[list[Any], list[str]]:
    """Return the stems of names, each with the steps between its numbers, and the names in the order of these."""
    return _packed(tuple(names))


def unpack_names(packed: Iterable[Any]) -> list[str]:
    """Return the names that ``pack_names`` packed, in order."""
    return [stem if n < 0 else f"{stem}{n}" for stem, steps in packed for n in accumulate(steps)]


@lru_cache(_COLLECTIONS)
def _packed(names: tuple[str, ...]) -> tuple[list[Any], list[str]]:
    numbered = sorted((*_numbered(name), name) for name in names)
    by_stem = [(stem, [0, *(n for _, n, _ in same)]) for stem, same in groupby(numbered, itemgetter(0))]
    steps = [[stem, [at - before for before, at in pairwise(numbers)]] for stem, numbers in by_stem]
    return steps, [name for _, _, name in numbered]


def _numbered(name: str) -> tuple[str, int]:
    """Return stem and number of a name; -1: it has no number, or writes it in another way."""
    stem = name.rstrip(_DIGITS)
    digits = name[len(stem) :]
    if not digits or len(digits) > _MOST_DIGITS or (digits[0] == "0" and digits != "0"):
        return name, -1
    return stem, int(digits)
