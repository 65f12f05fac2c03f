"""Packs numbers, and values of numbered names, into short text for offsets and snapshots.

    [4, 4, 4, 7]  as  "4x3 7"
    {"orders-0": 17, ..., "orders-9": 3}  as  {"orders-0..9": "17 20x8 3"}
    ["orders-0", ..., "orders-9"]  as  ["orders-0..9"]

Equal input gives equal text.  Damaged text raises ValueError, and never asks for memory without bound.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

__all__ = ["pack_names", "pack_numbers", "pack_values", "unpack_names", "unpack_numbers", "unpack_values"]

_SHORTEST = 4  # names of a run; fewer stay readable as they are
_MOST = 1_000_000  # names in all runs of a collection, and numbers of one text
_COLLECTIONS = 8  # whose runs are remembered: plan after plan packs values of the same names
_DIGITS, _MOST_DIGITS = "0123456789", 18
_RUN = re.compile(r"(?s)(?P<stem>|.*[^0-9])(?P<first>0|[1-9][0-9]{0,17})\.\.(?P<last>0|[1-9][0-9]{0,17})")


class _Run(NamedTuple):
    """The names ``stem`` + number, from the first number to the last."""

    stem: str
    first: int
    last: int

    def names(self) -> list[str]:
        stem = self.stem
        return [f"{stem}{number}" for number in range(self.first, self.last + 1)]

    def __str__(self) -> str:
        return f"{self.stem}{self.first}..{self.last}"


def pack_numbers(numbers: Iterable[int]) -> str:
    """Return numbers as text, equal neighbours as one with their count."""
    runs = [(number, len([*same])) for number, same in groupby(numbers)]
    return " ".join([str(number) if count == 1 else f"{number}x{count}" for number, count in runs])


def unpack_numbers(text: str) -> list[int]:
    """Return the numbers from a text that ``pack_numbers`` returned."""
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
    for run in _runs(tuple(values)):
        if isinstance(run, _Run):
            packed[str(run)] = pack_numbers([values[name] for name in run.names()])
        elif _looks_like_a_run(run):
            packed[str(_run_of_one(run))] = pack_numbers([values[run]])
        else:
            packed[run] = values[run]
    return packed


def unpack_values(packed: Mapping[str, int | str]) -> dict[str, int]:
    """Return the numbers by name that ``pack_values`` packed.  Raises TypeError for anything but numbers and text."""
    values: dict[str, int] = {}
    expanded = _Expanded()
    for key, value in packed.items():
        if isinstance(value, str):
            values.update(zip(expanded.names(key), unpack_numbers(value), strict=True))
        elif not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(value)
        else:
            values[key] = value
    return values


def pack_names(names: Collection[str]) -> list[str]:
    """Return names in order, numbered ones as runs."""
    return [
        str(_run_of_one(run)) if isinstance(run, str) and _looks_like_a_run(run) else str(run)
        for run in _runs(tuple(names))
    ]


def unpack_names(packed: Iterable[str]) -> list[str]:
    """Return the names that ``pack_names`` packed."""
    names: list[str] = []
    expanded = _Expanded()
    for name in packed:
        names += expanded.names(name) if _looks_like_a_run(name) else [name]
    return names


def _looks_like_a_run(name: str) -> bool:
    """Return whether a name must become a run of itself: it would be read as a run, or take the key of one."""
    return _RUN.fullmatch(name) is not None


class _Expanded:
    """Counts the names of all runs of a collection: a short text could name more than there is memory for."""

    def __init__(self) -> None:
        self._left = _MOST

    def names(self, text: str) -> list[str]:
        parts = _RUN.fullmatch(text)
        if parts is None:
            raise ValueError(text)
        run = _Run(parts["stem"], int(parts["first"]), int(parts["last"]))
        self._left -= run.last - run.first  # the first is no more than its text
        if run.last < run.first or self._left < 0:
            raise ValueError(text)
        return run.names()


def _run_of_one(name: str) -> _Run:
    stem, number = _numbered(name)
    return _Run(stem, number, number)


def _numbered(name: str) -> tuple[str, int]:
    """Return stem and number of a name; the number is negative if the name has none, or writes it in another way."""
    stem = name.rstrip(_DIGITS)
    digits = name[len(stem) :]
    if not digits or len(digits) > _MOST_DIGITS or (digits[0] == "0" and digits != "0"):
        return stem, -1
    return stem, int(digits)


@lru_cache(_COLLECTIONS)
def _runs(names: tuple[str, ...]) -> Sequence[_Run | str]:
    """Return runs, and the names that are in none, by stem and number."""
    runs: list[tuple[str, _Run | str]] = []
    by_stem: dict[str, list[int]] = {}
    for name in names:
        stem, number = _numbered(name)
        if number < 0:
            runs.append((name, name))
        else:
            by_stem.setdefault(stem, []).append(number)
    left = _MOST
    for stem, numbers in sorted(by_stem.items()):
        numbers.sort()
        for first, last in _neighbours(numbers):
            if last - first + 1 < _SHORTEST or last - first > left:
                runs += [(name, name) for name in _Run(stem, first, last).names()]
            else:
                left -= last - first
                runs.append((f"{stem}{first}", _Run(stem, first, last)))
    return [run for _, run in sorted(runs, key=lambda item: item[0])]


def _neighbours(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each stretch without a gap."""
    first = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[first], numbers[place - 1]
            first = place
