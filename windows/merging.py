"""Windows that merge: a new window may join the open windows of its key."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import ContractError
from tidegate.windows.window import TimeWindow

if TYPE_CHECKING:
    from tidegate.windows.assigners.contract import MergingWindowAssigner


class Merge(NamedTuple):
    """Open windows of a key that become one.

    parts: in the order in which their rows are joined; none if only the new window was merged.
    takes_new: whether the new window is part of the result.
    """

    result: TimeWindow
    parts: list[TimeWindow]
    takes_new: bool


def merges(assigner: MergingWindowAssigner, open_windows: Collection[TimeWindow], new: TimeWindow) -> list[Merge]:
    """Return the merges that a new window causes among the open windows of its key.

    Raises ContractError for a merge of other windows, of one window twice, or into an open window that is no part.
    """
    asked = _Asked(assigner, {*open_windows, new})
    assigner.merge_windows(sorted(asked.left), asked)
    open_before = {*open_windows}
    return [
        Merge(result, in_order(window for window in merged if window in open_before), new in merged)
        for merged, result in asked.merged
    ]


class _Asked:
    def __init__(self, assigner: MergingWindowAssigner, windows: set[TimeWindow]) -> None:
        self._assigner, self.left = assigner, windows
        self.merged: list[tuple[set[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Collection[TimeWindow], merge_result: TimeWindow) -> None:
        merged = {*to_be_merged}
        wrong = merged - self.left
        if merge_result not in merged and merge_result in self.left:
            wrong.add(merge_result)
        if wrong or not merged:
            named = ", ".join(map(str, sorted(merged))) or "nothing"
            raise ContractError(
                f"{type(self._assigner).__name__}.merge_windows merges {named} into {merge_result}, but each "
                "window may be merged once, and the result must be new or one of them."
            )
        self.left -= merged
        self.merged.append((merged, merge_result))


def in_order(parts: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return windows in order of time, in which their rows are joined.

    Flink takes them in the order of a Java hash set, which promises no order.
    """
    return sorted(parts)
