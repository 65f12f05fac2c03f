"""Offset JSON as people see it: a value for each split, whatever is packed; shares no code with ``Offset``."""

from __future__ import annotations

from typing import Any

_BY_SPLIT, _NAMES = ("positions", "starts", "hollow"), ("idle", "late", "removed")


def unpacked(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset in which nothing is packed; tidegate reads it, too."""
    seen = dict(offset)
    for key in _BY_SPLIT:
        if key in seen:
            seen[key] = {split: at for name, value in seen[key].items() for split, at in _values(name, value)}
    for key in _NAMES:
        if key in seen:
            seen[key] = sorted(split for name in seen[key] for split in ([name] if ".." not in name else _splits(name)))
    return seen


def _values(name: str, value: int | str) -> list[tuple[str, int]]:
    if isinstance(value, int):
        return [(name, value)]
    numbers = []
    for part in value.split(" "):
        number, _, count = part.partition("x")
        numbers += int(count or 1) * [int(number)]
    return [*zip(_splits(name), numbers, strict=True)]


def _splits(name: str) -> list[str]:
    front, last = name.split("..")
    first = front[len(front.rstrip("0123456789")) :]
    return [front.removesuffix(first) + str(number) for number in range(int(first), int(last) + 1)]
