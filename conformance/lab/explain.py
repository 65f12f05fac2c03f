"""Describes rows that are missing, doubled or out of order, with a diff from the first wrong one on."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import accumulate

from tidegate.conformance.lab.base import ConformanceError
from tidegate.errors import counted

_AROUND = 3
_MOST_PARTS = 5
_MOST_CHARACTERS = 200
_MOST_LINES = 12
_FRAMES = 6


def listed(items: Sequence[object]) -> str:
    """Return the first few items, and how many more there are."""
    named = ", ".join(_short(str(item)) for item in items[:_AROUND])
    return named if len(items) <= _AROUND else f"{named} and {len(items) - _AROUND:,} more"


def difference(
    expected: Mapping[int, Sequence[str]],
    delivered: Sequence[str],
    *,
    in_order: bool = True,
    part: str = "split",
    wanted: str = "written",
) -> str | None:
    """Compare delivered rows with written ones; None: they are the same.

    expected: keys of rows by the number of their split, in order.
    delivered: keys in the order in which they came; splits may be mixed.
    in_order: rows of a split must come in the order in which they were written.
    part, wanted: other words for a split, and for "written".
    """
    places = {key: (number, at) for number, keys in expected.items() for at, key in enumerate(keys)}
    known = [key for key in delivered if key in places]
    came: dict[int, list[str]] = {number: [] for number in expected}
    for key in known if in_order else sorted(known, key=places.__getitem__):
        came[places[key][0]].append(key)
    unknown = list(dict.fromkeys(key for key in delivered if key not in places))
    wrong = [number for number, keys in expected.items() if came[number] != list(keys)]
    if not (wrong or unknown):
        return None
    counts = Counter(known)
    kinds = (
        (len(places) - len(counts), "missing"),
        (sum(count > 1 for count in counts.values()), "more than once"),
        (len(unknown), f"never {wanted}"),
        (sum(_behind([places[key][1] for key in dict.fromkeys(keys)]) for keys in came.values()), "out of order"),
    )
    were = "was" if len(places) == 1 else "were"
    lines = [
        f"{counted(len(places), 'row')} {were} {wanted} and {len(delivered):,} delivered: "
        + ", ".join(f"{number:,} {what}" for number, what in kinds if number)
    ]
    for number in wrong[:_MOST_PARTS]:
        lines += [
            f"  {part} {number}, {counted(len(expected[number]), 'row')}:",
            *_diff(expected[number], came[number]),
        ]
    if len(wrong) > _MOST_PARTS:
        lines.append(f"  and {counted(len(wrong) - _MOST_PARTS, f'more {part}')} with wrong rows")
    return "\n".join([*lines, f"  never {wanted}: {listed(unknown)}"] if unknown else lines)


def ordered_difference(what: str, first: Sequence[str], second: Sequence[str]) -> str | None:
    """Compare two readings of the same rows, in order; None: they are the same."""
    if list(first) == list(second):
        return None
    sizes = f"{counted(len(first), 'row')} first, then {len(second):,}"
    at = first_difference(first, second)
    return "\n".join(
        [f"{what}: {sizes}; they differ from row {at:,} on: {_in_words(first, second)}", *_diff(first, second)]
    )


def first_difference(first: Sequence[str], second: Sequence[str]) -> int:
    """Return where two sequences differ first."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def shown_error(error: BaseException, *callers: str) -> str:
    """Return the text of an error, with the end of its stack, without callers, if it is not the kit's complaint."""
    if isinstance(error, ConformanceError):
        return str(error)
    # An unexpected error comes from the connector, so its own stack helps.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in callers]
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_list(frames[-_FRAMES:]))}".rstrip()


def _in_words(first: Sequence[str], second: Sequence[str]) -> str:
    """Return the rows that the second reading lacks, and those that it adds, in words."""
    lacks, has = Counter(first) - Counter(second), Counter(second) - Counter(first)
    differences = [f"{verb} {listed(list(keys))}" for verb, keys in (("lacks", lacks), ("adds", has)) if keys]
    return f"the second {' and '.join(differences)}" if differences else "the same rows in another order"


def _short(key: str) -> str:
    return key if len(key) <= _MOST_CHARACTERS else f"{key[:_MOST_CHARACTERS]}... ({len(key):,} characters)"


def _behind(places: Sequence[int]) -> int:
    """Return how many rows come after a later one of their split."""
    return sum(at < most for at, most in zip(places, accumulate(places, max), strict=True))


def _diff(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the lines of a unified diff around the first difference: - is only in the first, + only in the second."""
    at = first_difference(first, second)
    shown = slice(max(0, at - _AROUND), at + _MOST_LINES)
    before, after = ([_short(key) for key in keys[shown]] for keys in (first, second))
    _, _, *lines = unified_diff(before, after, n=_AROUND, lineterm="")  # two name the files
    return [f"    {line}" for line in lines if not line.startswith("@@")][:_MOST_LINES]
