"""Describes rows that are missing, doubled or out of order, with an arrow at the first wrong one."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidegate.conformance.errors import ConformanceError
from tidegate.errors import counted

_AROUND = 3
_MOST_PARTS = 5
_MOST_CHARACTERS = 60
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
    counts = Counter(delivered)
    after = _disordered(places, delivered) if in_order else {}
    wrong = {key: "missing" for key in places if key not in counts}
    wrong |= {key: f"comes {counts[key]:,} times" for key in places if counts[key] > 1}
    unknown = {key: before for before, key in zip(["", *delivered], delivered, strict=False) if key not in places}
    if not (wrong or unknown or after):
        return None
    kinds = (
        (sum(key not in counts for key in places), "missing"),
        (sum(counts[key] > 1 for key in places), "more than once"),
        (len(unknown), f"never {wanted}"),
        (len(after), "out of order"),
    )
    for key, before in after.items():
        wrong[key] = ", ".join(filter(None, [wrong.get(key), f"out of order: comes after {before}"]))
    were = "was" if len(places) == 1 else "were"
    lines = [
        f"{counted(len(places), 'row')} {were} {wanted} and {len(delivered):,} delivered: "
        + ", ".join(f"{number:,} {what}" for number, what in kinds if number)
    ]
    bad = {number: keys for number, keys in expected.items() if any(key in wrong for key in keys)}
    for number in list(bad)[:_MOST_PARTS]:
        lines += _of_part(f"{part} {number}", bad[number], wrong)
    if rest := list(bad.values())[_MOST_PARTS:]:
        rows = sum(key in wrong for keys in rest for key in keys)
        lines.append(f"  and {counted(len(rest), f'more {part}')} with {counted(rows, 'wrong row')}")
    for key in list(unknown)[:_AROUND]:
        place = f"comes after {_short(unknown[key])}" if unknown[key] else "comes first"
        lines.append(f"  -> {_short(key)!r} was never {wanted}; it {place}")
    if len(unknown) > _AROUND:
        lines.append(f"     and {len(unknown) - _AROUND:,} more that nobody {wanted}")
    return "\n".join(lines)


def ordered_difference(what: str, first: Sequence[str], second: Sequence[str]) -> str | None:
    """Compare two readings of the same rows, in order; None: they are the same."""
    if list(first) == list(second):
        return None
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    sizes = f"{counted(len(first), 'row')} first, then {len(second):,}"
    lines = [f"{what}: {sizes}; they differ from row {at:,} on: {_in_words(first, second)}"]
    for number in range(max(0, at - _AROUND), min(max(len(first), len(second)), at + _AROUND + 1)):
        arrow = "->" if number == at else "  "
        lines.append(f"  {arrow} {number:>6}  {_at(first, number):<24} {_at(second, number)}".rstrip())
    return "\n".join(lines)


def row_difference(what: str, keys: Sequence[str], first: pa.Table, second: pa.Table) -> str | None:
    """Compare two readings that have the same keys, column by column; None: all values are the same."""
    for name in first.schema.names:
        column, two = first.column(name), second.column(name)
        if column.equals(two):
            continue
        if column.type != two.type:
            return f"{what}: column {name!r} is {column.type} first, then {two.type}"
        at = next(n for n, (a, b) in enumerate(zip(column, two, strict=True)) if not a.equals(b))
        return f"{what}: column {name!r} differs: row {keys[at]} has another value the second time"
    return None


def told(error: BaseException, *callers: str) -> str:
    """Return the text of an error, with the end of its stack, without callers, if it is not the kit's complaint."""
    if isinstance(error, ConformanceError):
        return str(error)
    # An unexpected error comes from the connector, so its own stack helps.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in callers]
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_list(frames[-_FRAMES:]))}".rstrip()


def _in_words(first: Sequence[str], second: Sequence[str]) -> str:
    """Return the rows that the second reading lacks, and those that it adds, in words."""
    lacks, has = Counter(first) - Counter(second), Counter(second) - Counter(first)
    said = [f"{verb} {listed(list(keys))}" for verb, keys in (("lacks", lacks), ("adds", has)) if keys]
    return f"the second {' and '.join(said)}" if said else "the same rows in another order"


def _at(keys: Sequence[str], number: int) -> str:
    return _short(keys[number]) if number < len(keys) else "(nothing)"


def _short(key: str) -> str:
    return key if len(key) <= _MOST_CHARACTERS else f"{key[:_MOST_CHARACTERS]}... ({len(key):,} characters)"


def _disordered(places: Mapping[str, tuple[int, int]], delivered: Sequence[str]) -> dict[str, str]:
    """Return the keys that come after a later one of their split, each with the latest of those."""
    furthest: dict[int, tuple[int, str]] = {}
    disordered = {}
    for key in dict.fromkeys(delivered):
        if key not in places:
            continue
        number, at = places[key]
        latest = furthest.get(number)
        if latest is not None and at < latest[0]:
            disordered[key] = latest[1]
        else:
            furthest[number] = (at, key)
    return disordered


def _of_part(name: str, keys: Sequence[str], wrong: Mapping[str, str]) -> list[str]:
    lines = [f"  {name}, {counted(len(keys), 'row')}"]
    if len(keys) > 1 and all(wrong.get(key) == "missing" for key in keys):
        return [f"{lines[0]}: all are missing, {keys[0]} to {keys[-1]}"]
    first = next(at for at, key in enumerate(keys) if key in wrong)
    shown = range(max(0, first - _AROUND), min(len(keys), first + _AROUND + 1))
    for at in shown:
        arrow = "->" if at == first else "  "
        lines.append(f"  {arrow} {keys[at]:<16} {wrong.get(keys[at], '')}".rstrip())
    left = [key for key in keys[shown.stop :] if key in wrong]
    return [*lines, f"     and {len(left):,} more up to {left[-1]}"] if left else lines
