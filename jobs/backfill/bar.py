"""Shows the progress of a run on a terminal, or as lines of text."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text
from typing_extensions import Self

from tidegate.alignment.splits import SplitId
from tidegate.jobs.backfill.standing import BackfillStanding, standing
from tidegate.jobs.run_extent import Stretch
from tidegate.sources.progress.query import QueryProgress

__all__ = ["EventTimeBar"]

_RECENT = 10
_LINE_EVERY_S = 5.0


class EventTimeBar:
    """Shows how far a run has come in event time; use it as a context manager.

    stretches: the stretches that the run reads; more may become known during the run.
    begun_ms: the event time of the first record of all runs.
    """

    def __init__(
        self,
        console: Console,
        stretches: Mapping[SplitId, Stretch],
        clock: Callable[[], float] = time.monotonic,
        *,
        begun_ms: int | None = None,
    ) -> None:
        self._console, self._stretches, self._clock = console, stretches, clock
        self._begun_ms = begun_ms
        self._recent: deque[QueryProgress] = deque(maxlen=_RECENT)
        self.batches = self.rows = 0
        self._said_at = float("-inf")
        self._live: Live | None = None
        self._bar = Progress(
            SpinnerColumn(), BarColumn(bar_width=32), TextColumn("{task.description}"), console=console
        )
        self._task = self._bar.add_task("")

    def update(self, batch: QueryProgress) -> None:
        """Show the standing of the run after another batch."""
        self._recent.append(batch)
        self.batches += 1
        self.rows += batch.rows
        now = self._standing()
        if self._live is not None:
            self._show(now)
        elif self._clock() - self._said_at >= _LINE_EVERY_S or not now.rows_left:
            self._said_at = self._clock()
            self._console.print(f"{now.headline} · {now.details}", soft_wrap=True, highlight=False, markup=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=8)
            self._show(self._standing())
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def _standing(self) -> BackfillStanding:
        return standing(self._stretches, self._recent, self.rows, self._begun_ms)

    def _show(self, now: BackfillStanding) -> None:
        if self._live is None:
            return
        whole = now.done_ms + now.left_ms
        self._bar.update(self._task, description=now.headline, total=max(1, whole), completed=now.done_ms)
        self._live.update(Group(self._bar, Text(f"  {now.details}", style="dim")))
