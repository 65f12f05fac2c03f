"""Tells in a line how far a run has come."""

from __future__ import annotations

from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, printable, share, span
from tidegate.sources.progress.query import QueryProgress


class RunLine:
    """Adds up the batches of one run."""

    def __init__(self) -> None:
        self.rows = self.batches = 0
        self._last: SourceProgress | None = None

    @property
    def bad_records(self) -> int:
        """How many bad records all runs have set aside, as far as the last batch tells."""
        return (self._last and self._last.bad_records_total) or 0

    def after(self, batch: QueryProgress) -> str:
        """Take another batch; return the rows of this run, the speed of the batch, and the event time reached."""
        self.batches += 1
        self.rows += batch.rows
        last = self._last = batch.source.progress or self._last  # none: an earlier run has planned it
        parts = [counted(self.rows, "row"), f"{count(batch.rows / batch.seconds if batch.seconds else 0)} rows/s"]
        if last is not None:
            parts.insert(0, share(self.rows, self.rows + last.rows_remaining))
            if last.rows_remaining:
                parts += [f"read up to {clock_time(last.bound)}", f"{span(last.event_time_lag)} behind"]
                parts += [f"held by {printable(last.held_by)}"] if last.held_by else []
        return " · ".join(parts)
