"""Refuses the state of other windows, in a sentence that names the change."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.errors import CheckpointError

_BUCKETS = "number of buckets"
_PARTITIONS = re.compile(r"for (\d+) shuffle partitions")
_ALWAYS = ", stagger=ALIGNED"  # of windows, which earlier versions described so


def check_same_windows(stored: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise CheckpointError if a checkpoint has the state of windows with another description."""
    both = {name: (stored.get(name, "none").replace(_ALWAYS, ""), now.get(name, "none")) for name in {**stored, **now}}
    changes = [f"{name} was {was!r} and is {is_now!r}" for name, (was, is_now) in both.items() if was != is_now]
    if changes:
        raise CheckpointError(
            f"the checkpoint holds the state of other windows: {', and '.join(changes)}; "
            f"{_way_back(both)}, or begin with a new checkpoint location"
        )


def _way_back(both: Mapping[str, tuple[str, str]]) -> str:
    was, is_now = both.get(_BUCKETS, ("", ""))
    if was == is_now:
        return "set that back"
    if was.isdigit():
        return f"set that back, by .buckets({was})"
    partitions = _PARTITIONS.search(was)
    if is_now.isdigit() or partitions is None:
        return "set that back, without .buckets()"
    return (
        f"repartition the state back to {partitions[1]}, because only windows with .buckets(n) may have another number "
        "of partitions"
    )
