"""A harness for people who write triggers, assigners or evictors: windows without Spark."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tidegate.windows.assigners.contract import WindowAssigner
from tidegate.windows.contexts import ProcessWindowContext
from tidegate.windows.evictors import Evictor
from tidegate.windows.functions.results import Process, ProcessWindowFunction
from tidegate.windows.key_run import KeyRun
from tidegate.windows.key_windows import Fired
from tidegate.windows.operator import WindowOperator
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.window import MIN_TIME


class Pane(NamedTuple):
    """One firing of a window: its rows, and the watermark at that moment.

    Times are in milliseconds; start and end of the global window are None.
    """

    key: Any
    start_ms: int | None
    end_ms: int | None
    rows: list[Mapping[str, Any]]
    watermark_ms: int


class WindowHarness:
    """Hands rows and times to a window operator, and collects its results.

    The first watermark is -2**63, and the first processing time 0.

    Attributes:
    panes: the firings, in order.  late: rows that no window took.

    """

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger | None = None,
        evictor: Evictor | None = None,
        allowed_lateness: timedelta = timedelta(0),
    ) -> None:
        self.panes: list[Pane] = []
        self.late: list[Mapping[str, Any]] = []
        self._operator = WindowOperator(assigner, Process(_Panes()), trigger, evictor, allowed_lateness)
        self._runs: dict[Hashable, KeyRun] = {}
        self._watermark_ms, self._processing_time_ms = MIN_TIME, 0

    def element(self, key: Hashable, row: Mapping[str, Any], timestamp_ms: int) -> None:
        """Take one row."""
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = KeyRun(self._operator, key, MemoryKeyStore(), self._processing_time_ms)
            run.advance_watermark(self._watermark_ms)
        run.process_element(row, timestamp_ms)
        self._collect([run])

    def watermark(self, ms: int) -> None:
        """Advance the watermark, and fire the timers up to it; one that is not greater than the last does nothing."""
        self._watermark_ms = max(ms, self._watermark_ms)
        for run in self._runs.values():
            run.advance_watermark(ms)
        self._collect(self._runs.values())

    def processing_time(self, ms: int) -> None:
        """Advance the clock, and fire the timers up to it."""
        self._processing_time_ms = max(ms, self._processing_time_ms)
        for run in self._runs.values():
            run.advance_processing_time(ms)
        self._collect(self._runs.values())

    def event_timers(self) -> list[tuple[Any, int, int | None, int | None]]:
        """Return the event-time timers that are left: key, time, start and end of the window."""
        return [(key, *timer) for key, run in self._runs.items() for timer in run.event_timers()]

    def processing_timers(self) -> list[tuple[Any, int, int | None, int | None]]:
        """Return the processing-time timers that are left: key, time, start and end of the window."""
        return [(key, *timer) for key, run in self._runs.items() for timer in run.processing_timers()]

    def _collect(self, runs: Iterable[KeyRun]) -> None:
        fired = [result for run in runs for result in run.results]
        # The earlier timer fires first, whatever its key.
        self.panes += [result.value for result in sorted(fired, key=_moment)]
        for run in runs:
            self.late += run.late
            run.results.clear()
            run.late.clear()


def _moment(result: Fired) -> int:
    return MIN_TIME if result.timer is None else result.timer


class _Panes(ProcessWindowFunction):
    """Gives each firing as a Pane."""

    def process(self, key: Any, context: ProcessWindowContext, elements: Sequence[Mapping[str, Any]]) -> Iterable[Pane]:
        """Return the one pane."""
        window = context.window()
        return [Pane(key, window.start, window.end, list(elements), context.current_watermark())]
