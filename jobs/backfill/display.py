"""Shows how far a run has come: on a terminal as a line that changes, otherwise as lines of text."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.text import Text
from typing_extensions import Self

from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, printable, share, span
from tidegate.sources.progress.query import QueryProgress

_RECENT = 10
_LINE_EVERY_S = 5.0


class RunDisplay:
    """Shows the progress of one run; use it as a context manager."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._status = console.status("") if console.is_terminal else None
        self._recent: deque[QueryProgress] = deque(maxlen=_RECENT)
        self._last: SourceProgress | None = None
        self._said_at = float("-inf")
        self.batches = self.rows = 0

    def update(self, batch: QueryProgress) -> None:
        """Show the standing after another batch."""
        self._recent.append(batch)
        self._last = batch.source.progress or self._last  # none: an earlier run has planned it
        self.batches += 1
        self.rows += batch.rows
        is_over = self._last is not None and not self._last.rows_remaining
        if self._status is not None:
            self._status.update(Text(self.line))
        elif is_over or self._clock() - self._said_at >= _LINE_EVERY_S:
            self._said_at = self._clock()
            self._console.print(self.line, soft_wrap=True, highlight=False, markup=False)

    @property
    def line(self) -> str:
        """The standing in one line: rows of this run, the speed of the last batches, and the event time reached."""
        seconds = sum(batch.seconds for batch in self._recent)
        speed = sum(batch.rows for batch in self._recent) / seconds if seconds else 0.0
        parts = [counted(self.rows, "row"), f"{count(speed)} rows/s"]
        if (last := self._last) is not None:
            parts.insert(0, share(self.rows, self.rows + last.rows_remaining))
            if last.rows_remaining:
                parts += [f"read up to {clock_time(last.bound)}", f"{span(last.event_time_lag)} behind"]
                parts += [f"held by {printable(last.held_by)}"] if last.held_by else []
        return " · ".join(parts)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
