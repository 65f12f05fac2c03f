"""Lets batches size themselves: derives the row budget of the next batch from the time of the last ones.

A planner does not see how long a batch takes, because Spark asks for the next offset before it commits the last.
Spark's query listener on the driver sees it, and leaves a note.  Without a listener, the time between two plans counts.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.alignment.pacing import BatchSizer
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.bad_records import offset_digest

BATCHES = "batches"  # the folder of the notes
_PATIENCE_S = 0.2  # a note comes some milliseconds after the batch
_POLL_S = 0.005
_BATCHES_KNOWN = 16  # a slow listener's note may be about an earlier batch


def batch_note(end: Json, seconds: float, query: str | None = None, dropped: int = 0) -> Json:
    """Return the listener's note of a finished batch, which its end offset identifies for the planner.

    dropped: how many groups and rows the query's stateful operators have dropped as late in this run.
    """
    return {"end": offset_digest(end), "seconds": seconds, "query": query, "dropped": dropped}


class BatchPace:
    """Measures the batches of one run by the listener's last note."""

    def __init__(
        self, target_seconds: float, read_note: Callable[[], Json | None], clocks: Clocks = REAL_CLOCKS
    ) -> None:
        self._sizer = BatchSizer(target_seconds)
        self._read_note, self._clock, self._sleep = read_note, clocks.monotonic, clocks.sleep
        self._begun: tuple[float, str] | None = None
        self._rows: dict[str, int] = {}
        self._heard: str | None = None

    def rows(self) -> int:
        """Return how many rows the next batch may hold.  Called before every plan."""
        if self._begun is not None:
            self._learn(*self._begun)
            self._begun = None
        return self._sizer.rows

    def begin(self, end: Json, rows: int) -> None:
        """Note that a batch begins now, and its size.  Called after every plan with a new offset."""
        digest = offset_digest(end)
        self._begun = (self._clock(), digest)
        self._rows[digest] = rows
        if len(self._rows) > _BATCHES_KNOWN:
            del self._rows[next(iter(self._rows))]

    def _learn(self, begun: float, end: str) -> None:
        listened = self._heard is not None
        until = self._clock() + (_PATIENCE_S if listened else 0.0)
        while (note := self._read_note()) is None or note["end"] != end:
            if self._clock() >= until:
                break
            self._sleep(_POLL_S)
        if note is not None and note["end"] != self._heard and note["end"] in self._rows:
            self._heard = note["end"]
            self._sizer.observe(self._rows[note["end"]], note["seconds"])
        elif not listened:
            self._sizer.observe(self._rows[end], self._clock() - begun)
