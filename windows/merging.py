"""Windows that merge: a new window joins the windows of its key that it overlaps or touches."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.windows.window import TimeWindow, Window

__all__ = ["joined"]


def joined(open_windows: Iterable[Window], new: TimeWindow) -> tuple[TimeWindow, list[TimeWindow]]:
    """Return the window that a new one becomes, and the open windows that it overlaps or touches.

    open_windows: none of them overlaps or touches another.
    """
    parts = in_order(window for window in open_windows if isinstance(window, TimeWindow) and window.intersects(new))
    cover = new
    for part in parts:
        cover = cover.cover(part)
    return cover, parts


def in_order(parts: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return windows in order of time, in which their rows are joined.

    Flink takes them in the order of a Java hash set, which promises no order.
    """
    return sorted(parts)
