"""Says which rows are missing, doubled or out of order, with an arrow at the first wrong one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["difference", "ordered_difference"]

_AROUND = 3


def difference(expected: Mapping[int, Sequence[str]], delivered: Sequence[str], *, in_order: bool = True) -> str | None:
    """Compare what was delivered with what was written; None: it is the same.

    expected: keys of rows by the number of their split, in order.
    delivered: keys in the order in which they came; splits may be mixed.
    in_order: rows of a split must come in the order in which they were written.
    """
    written = {key: split for split, keys in expected.items() for key in keys}
    counts = Counter(delivered)
    missing = [key for key in written if key not in counts]
    doubled = [key for key in written if counts[key] > 1]
    unknown = [key for key in counts if key not in written]
    disordered = _disordered(expected, delivered) if in_order else []
    if not (missing or doubled or unknown or disordered):
        return None
    found = [
        f"{len(keys):,} {what}"
        for keys, what in (
            (missing, "missing"),
            (doubled, "more than once"),
            (unknown, "that nobody wrote"),
            (disordered, "out of order"),
        )
        if keys
    ]
    lines = [f"{len(written):,} rows were written and {len(delivered):,} delivered: {', '.join(found)}"]
    wrong = {**dict.fromkeys(missing, "missing"), **{k: f"{counts[k]} times" for k in doubled}}
    wrong |= {k: "out of order" for k in disordered if k not in wrong}
    for split, keys in expected.items():
        lines += _of_split(split, keys, wrong)
    lines += [f"  -> {key!r} was never written" for key in unknown[:_AROUND]]
    return "\n".join(lines)


def ordered_difference(what: str, first: Sequence[str], second: Sequence[str]) -> str | None:
    """Compare two readings of the same rows, in order; None: they are the same."""
    if list(first) == list(second):
        return None
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    lines = [f"{what}: {len(first):,} rows first, then {len(second):,}; they differ from row {at:,} on"]
    for number in range(max(0, at - _AROUND), min(max(len(first), len(second)), at + _AROUND)):
        arrow = "->" if number == at else "  "
        lines.append(f"  {arrow} {number:>6}  {_at(first, number):<24} {_at(second, number)}")
    return "\n".join(lines)


def _at(keys: Sequence[str], number: int) -> str:
    return keys[number] if number < len(keys) else "(nothing)"


def _disordered(expected: Mapping[int, Sequence[str]], delivered: Sequence[str]) -> list[str]:
    places = {key: (split, number) for split, keys in expected.items() for number, key in enumerate(keys)}
    furthest: dict[int, int] = {}
    found = []
    for key in dict.fromkeys(delivered):
        if key not in places:
            continue
        split, number = places[key]
        if number < furthest.get(split, -1):
            found.append(key)
        furthest[split] = max(number, furthest.get(split, -1))
    return found


def _of_split(split: int, keys: Sequence[str], wrong: Mapping[str, str]) -> list[str]:
    first = next((number for number, key in enumerate(keys) if key in wrong), None)
    if first is None:
        return []
    lines = [f"  split {split}, {len(keys):,} rows"]
    for number in range(max(0, first - _AROUND), min(len(keys), first + _AROUND + 1)):
        arrow = "->" if number == first else "  "
        lines.append(f"  {arrow} {keys[number]:<16} {wrong.get(keys[number], '')}".rstrip())
    left = sum(key in wrong for key in keys[first + _AROUND + 1 :])
    return [*lines, f"     and {left:,} more"] if left else lines
