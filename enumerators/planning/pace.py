"""Lets batches size themselves: derives the row budget of the next batch from the time of the last ones.

The idea is Flink's buffer debloating (FLIP-183): measure the speed, and read what fits into the target time.  Unlike in
the PID controller of Spark's old DStreams, past errors are not added up, so a measurement that comes one batch late
does not make the budget swing.

A planner does not see how long a batch takes, because Spark asks for the next offset before it commits the last.
Spark's query listener on the driver sees it, and leaves a note.  Without a listener, the time between two plans counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import offset_digest
from tidegate.errors import OptionError

# Nothing is known about the sink at first, and without a limit a back-fill would put all history into one batch.  A low
# value costs little: batches that double until they fill the target take twice the target in total.
_FIRST_ROWS = 1_000
_FIXED_SECONDS = 0.2  # of a Spark batch without rows, until it is measured
_SHORTEST, _LONGEST = 1e-3, 1e10  # seconds; Spark counts whole milliseconds, and no option names a longer duration
_MOST_ROWS = 2**63 - 1  # Spark counts rows in a Long
_GROWTH, _SHRINKAGE = 2, 3  # the greatest factors of one step
_NOISE = math.log(1.6)  # 30 % of noise make a batch 1.43 times as long; the rest is for our own error
_SMOOTHED = 5  # batches


class BatchSizer:
    """The row budget with which a batch takes the target time.

    The model: a batch lasts ``fixed + rows * per_row`` seconds.  When a batch takes another time, each term is
    corrected by its share of the time (least mean squares, on logarithms).  An almost empty batch corrects the fixed
    time and leaves the speed alone.

    The speed is the mean over the batches since it last changed, but over about five at most.  A batch that is off by a
    factor of more than 1.6 counts as a change.  A pause looks the same until the next batch is seen, so one step grows
    the budget at most 2 times, as in Flink, and shrinks it at most 3 times.  A batch that leaves its budget unused does
    not show that more would fit (RFC 7661), so the budget is at most twice the largest batch that was measured.

    target_seconds: at least a millisecond.  A target below the fixed time cannot be met: rows then get a quarter of it.
        The budget is then often too low, because batches of almost one size do not show what a row costs.

    Raises OptionError for a target outside these limits.  Nothing is stored: a restarted query measures again.
    """

    def __init__(self, target_seconds: float) -> None:
        if not _SHORTEST <= target_seconds <= _LONGEST:
            raise OptionError(
                f"target batch duration is {target_seconds} s, but it must be from {_SHORTEST:g} s to {_LONGEST:g} s"
            )
        self._target = target_seconds
        self._rows = self._ceiling = _FIRST_ROWS
        self._fixed = _FIXED_SECONDS
        self._per_row = self._seconds_for_rows / _FIRST_ROWS
        self._batches = 0  # since the speed last changed

    @property
    def rows(self) -> int:
        """The budget of the next batch; at least 1."""
        return self._rows

    def observe(self, rows: int, seconds: float) -> None:
        """Learn from a finished batch.

        rows: how many rows it read, not how many it was allowed to read.
        seconds: the time from its trigger to its end.  A time that no batch can take (zero, negative, not finite) is
            ignored.

        Called once for each batch, in order; some may come late or never.
        """
        if not 0 < seconds < math.inf:
            return
        rows = min(max(rows, 0), _MOST_ROWS)
        self._learn(rows, min(max(seconds, _SHORTEST), _LONGEST))
        self._ceiling = max(self._ceiling, min(_GROWTH * rows, _MOST_ROWS))
        fitting = min(self._ceiling, _GROWTH * self._rows, self._seconds_for_rows / self._per_row)
        self._rows = max(1, self._rows // _SHRINKAGE, round(fitting))

    @property
    def _seconds_for_rows(self) -> float:
        return max(self._target - self._fixed, self._target / 4)

    def _learn(self, rows: int, seconds: float) -> None:
        for_rows = rows * self._per_row
        error = math.log(seconds / (self._fixed + for_rows))
        self._batches = 1 if abs(error) > _NOISE else min(self._batches + 1, _SMOOTHED)
        # The greater term takes the whole step: shared between both terms, it would fall short.
        step = error / self._batches / max(self._fixed, for_rows)
        self._fixed *= math.exp(step * self._fixed)
        self._per_row *= math.exp(step * for_rows)


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
