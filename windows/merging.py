"""Windows that merge: which of a key's windows a new one makes one of."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.windows.window import TimeWindow, Window

__all__ = ["joined"]


def joined(open_windows: Iterable[Window], new: TimeWindow) -> tuple[TimeWindow, list[TimeWindow]]:
    """Return the window that a new one becomes, and the open windows that it overlaps or touches.

    open_windows: windows of which none overlaps or touches another.
    """
    parts = in_order(window for window in open_windows if isinstance(window, TimeWindow) and window.intersects(new))
    cover = new
    for part in parts:
        cover = cover.cover(part)
    return cover, parts


def in_order(parts: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return windows in the order in which their rows are joined: that of time.

    Flink's order is that of a Java hash set, so it leaves this open.
    """
    return sorted(parts)
