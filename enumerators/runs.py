"""Packs numbers, and values of numbered names, into short text for offsets and snapshots.

    [4, 4, 4, 7]  as  "4x3 7"
    {"orders-0": 17, ..., "orders-9": 3}  as  {"orders-0..9": "17 20x8 3"}
    ["orders-0", ..., "orders-9"]  as  ["orders-0..9"]

Equal input gives equal text.  Damaged text raises ValueError, and never asks for memory without bound.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

__all__ = ["pack_names", "pack_numbers", "pack_values", "unpack_names", "unpack_numbers", "unpack_values"]

_SHORTEST = 4  # names of a run; fewer stay as they are, for people
_MOST = 1_000_000  # numbers of one text
_NUMBERED = re.compile(r"(?s)(?P<stem>|.*[^0-9])(?P<number>0|[1-9][0-9]{0,17})")
_RUN = re.compile(r"(?s)(?P<stem>|.*[^0-9])(?P<first>0|[1-9][0-9]{0,17})\.\.(?P<last>0|[1-9][0-9]{0,17})")


class _Run(NamedTuple):
    """The names ``stem`` + number, from the first number to the last one."""

    stem: str
    first: int
    last: int

    def names(self) -> list[str]:
        if not 0 <= self.last - self.first < _MOST:
            raise ValueError(self)
        return [f"{self.stem}{number}" for number in range(self.first, self.last + 1)]

    def __str__(self) -> str:
        return f"{self.stem}{self.first}..{self.last}"


def pack_numbers(numbers: Iterable[int]) -> str:
    """Return numbers as text, equal neighbours as one with their count."""
    runs = [(number, len([*same])) for number, same in groupby(numbers)]
    return " ".join([str(number) if count == 1 else f"{number}x{count}" for number, count in runs])


def unpack_numbers(text: str) -> list[int]:
    """Return the numbers in a text of ``pack_numbers``."""
    numbers: list[int] = []
    for part in text.split():
        number, times, count = part.partition("x")
        if len(numbers) + (repeated := int(count) if times else 1) > _MOST:
            raise ValueError(part)
        numbers += [int(number)] * repeated
    return numbers


def pack_values(values: Mapping[str, int]) -> dict[str, int | str]:
    """Return a number for each name, numbered names as runs."""
    packed: dict[str, int | str] = {}
    for run in _runs(values):
        if isinstance(run, _Run):
            packed[str(run)] = pack_numbers(values[name] for name in run.names())
        elif _looks_like_a_run(run):
            packed[str(_run_of_one(run))] = pack_numbers([values[run]])
        else:
            packed[run] = values[run]
    return packed


def unpack_values(packed: Mapping[str, int | str]) -> dict[str, int]:
    """Return the numbers by name of ``pack_values``.  Raises TypeError for anything but numbers and text."""
    values: dict[str, int] = {}
    for key, value in packed.items():
        if isinstance(value, str):
            values.update(zip(_run(key).names(), unpack_numbers(value), strict=True))
        elif not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(value)
        else:
            values[key] = value
    return values


def pack_names(names: Collection[str]) -> list[str]:
    """Return names in order, numbered ones as runs."""
    return [
        str(_run_of_one(run)) if isinstance(run, str) and _looks_like_a_run(run) else str(run) for run in _runs(names)
    ]


def unpack_names(packed: Iterable[str]) -> list[str]:
    """Return the names of ``pack_names``."""
    names: list[str] = []
    for name in packed:
        names += _run(name).names() if _looks_like_a_run(name) else [name]
        if len(names) > _MOST:
            raise ValueError(name)
    return names


def _looks_like_a_run(name: str) -> bool:
    """Tell whether a name must become a run of itself: it would be read as a run, or take the key of one."""
    return _RUN.fullmatch(name) is not None


def _run(text: str) -> _Run:
    parts = _RUN.fullmatch(text)
    if parts is None:
        raise ValueError(text)
    return _Run(parts["stem"], int(parts["first"]), int(parts["last"]))


def _run_of_one(name: str) -> _Run:
    parts = _NUMBERED.fullmatch(name)
    if parts is None:
        raise ValueError(name)
    return _Run(parts["stem"], int(parts["number"]), int(parts["number"]))


def _runs(names: Iterable[str]) -> Iterator[_Run | str]:
    """Yield runs, and the names that are in none, by stem and number."""
    singles: list[str] = []
    by_stem: dict[str, list[int]] = {}
    for name in names:
        if (parts := _NUMBERED.fullmatch(name)) is None:
            singles.append(name)
        else:
            by_stem.setdefault(parts["stem"], []).append(int(parts["number"]))
    runs: list[tuple[str, _Run | str]] = [(name, name) for name in singles]
    for stem, numbers in by_stem.items():
        numbers.sort()
        # The difference to its place is the same for all numbers of a run.
        for _, same in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
            run = [number for _, number in same]
            if len(run) < _SHORTEST:
                runs += [(name, name) for name in (f"{stem}{number}" for number in run)]
            else:
                runs.append((f"{stem}{run[0]}", _Run(stem, run[0], run[-1])))
    return (run for _, run in sorted(runs, key=lambda item: item[0]))
