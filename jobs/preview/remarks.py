"""What is remarkable about each split of a preview.  Pure logic: to text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegate.alignment.splits import SplitId
from tidegate.jobs.figures import clock_time, share, span

if TYPE_CHECKING:
    from tidegate.jobs.preview.history import History
    from tidegate.jobs.preview.preview import Preview


_DAY_MS = 86_400_000
_MUCH = 20  # the part of all event time that is remarkable
_FEW = 0.001  # the share of the rows that does not widen the picture


def shown_span(found: Preview) -> tuple[int, int]:
    """Return the event times, in ms, between which the rows lie, without the few at each end that lie far away."""
    histories = found.seen.histories.values()
    rows = np.concatenate([np.full(len(history.times_ms), history.rows_of_each) for history in histories])
    times = np.concatenate([history.times_ms for history in histories])
    order = np.argsort(times)
    shares = np.cumsum(rows[order]) / rows.sum()
    begin_ms, end_ms = (int(times[order][np.searchsorted(shares, share)]) for share in (_FEW, 1 - _FEW))
    near_ms = (end_ms - begin_ms) // _MUCH
    first_ms, last_ms = int(times.min()), int(times.max())
    return (
        first_ms if begin_ms - first_ms <= near_ms else begin_ms,
        last_ms if last_ms - end_ms <= near_ms else end_ms,
    )


def remarks(found: Preview) -> dict[SplitId, list[str]]:
    """Return what is remarkable about each split."""
    if not found.seen.histories:
        return {split.id: ["empty"] for split in found.splits}
    begin_ms, end_ms = shown_span(found)
    return {
        split.id: [
            *found.seen.notes.get(split.id, ()),
            *_of_split(found, found.seen.histories[split.id], begin_ms, end_ms),
            *(["the time index is blind here: figures come from samples"] if split.id in found.seen.blind else ()),
        ]
        if split.id in found.seen.histories
        else ["empty"]
        for split in found.splits
    }


def _of_split(found: Preview, history: History, begin_ms: int, end_ms: int) -> Iterator[str]:
    times = np.sort(history.times_ms)
    if not found.seen.are_objects:  # their parts begin and end as the objects were written
        yield from _holes(times, begin_ms, end_ms)
    if times[-1] > found.seen.now_ms + _DAY_MS:
        yield f"records from the future, up to {clock_time(int(times[-1]))}"
    if times[0] <= _DAY_MS:
        yield "records at 0"
    elif history.disorder_ms:
        furthest = f"up to {span(history.disorder_ms)}"
        yield (
            f"{furthest} behind earlier objects"
            if found.seen.are_objects
            else f"out of order by {furthest}, by samples"
        )
    if history.density < 1:
        yield f"{share(round(1000 * history.density), 1000)} of the offsets hold a record (compaction, transactions)"


def _holes(times: NDArray[np.int64], begin_ms: int, end_ms: int) -> Iterator[str]:
    much_ms = max(1, (end_ms - begin_ms) // _MUCH)
    shown = times[(times >= begin_ms) & (times <= end_ms)]
    if times[0] - begin_ms > much_ms:
        yield f"begins {span(int(times[0]) - begin_ms)} after the first"
    if end_ms - times[-1] > much_ms:
        yield f"quiet for the last {span(end_ms - int(times[-1]))}"
    if len(shown) > 1 and (gap_ms := int(np.diff(shown).max())) > much_ms:
        yield f"a gap of {span(gap_ms)} from {clock_time(int(shown[np.diff(shown).argmax()]))}"
