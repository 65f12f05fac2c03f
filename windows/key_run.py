"""One key of one batch: first its times advance, then it takes its rows, at once where that makes no difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import FunctionError, TidegateError
from tidegate.windows.contexts import KeyClock
from tidegate.windows.key_windows import KeyWindows, OpenPane
from tidegate.windows.rows import Places, Rows, Times
from tidegate.windows.state.key_state import KeyState
from tidegate.windows.state.store import KeyStore
from tidegate.windows.window import MIN_TIME, Window

if TYPE_CHECKING:
    from tidegate.windows.assigners.contract import Assigned
    from tidegate.windows.operator import WindowOperator


class KeyRun:
    """One key of one batch, with its stored state.

    processing_time: the time of the clock in ms.  Due timers wait for ``advance_processing_time``.

    Advance the times to those of the batch, hand over its rows, read ``results`` and ``late``, and close.
    That is Flink's order: the watermark of the last batch came first, and the rows of this batch follow it.

    Attributes:
    results: the results that fired, in order.  late: rows behind the watermark, which no window took.

    """

    def __init__(self, operator: WindowOperator, key: Any, store: KeyStore, processing_time: int = MIN_TIME) -> None:
        self._state = KeyState(store)
        self._clock = KeyClock(self._state, processing_time)
        self._windows = KeyWindows(operator, key, self._clock)
        self._assigner, self._trigger = operator.assigner, operator.trigger
        self.results, self.late = self._windows.results, self._windows.late

    @property
    def watermark(self) -> int:
        """Return the watermark of the key in ms."""
        return self._state.watermark

    @property
    def stored_windows(self) -> int:
        """Return the number of windows in the store; windows that were merged are one."""
        return self._state.stored_panes

    def next_event_timer(self) -> int | None:
        """Return the time of the key's first event-time timer in ms."""
        return self._state.event_timers.next_time()

    def next_processing_timer(self) -> int | None:
        """Return the time of the key's first processing-time timer in ms."""
        return self._state.processing_timers.next_time()

    def event_timers(self) -> list[tuple[int, int | None, int | None]]:
        """Return the key's event-time timers: time, start and end of the window."""
        return [(time, window.start, window.end) for time, window in self._state.event_timers.entries]

    def processing_timers(self) -> list[tuple[int, int | None, int | None]]:
        """Return the key's processing-time timers: time, start and end of the window."""
        return [(time, window.start, window.end) for time, window in self._state.processing_timers.entries]

    def open(self, panes: Iterable[OpenPane]) -> None:
        """Add windows that were open before."""
        for pane in panes:
            self._windows.open(pane)

    def panes(self) -> list[OpenPane]:
        """Return the windows that are open."""
        timers: dict[Window, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for place, of_clock in enumerate((self._state.event_timers, self._state.processing_timers)):
            for time, window in of_clock.entries:
                timers[window][place].append(time)
        return [OpenPane(window, pane.contents, pane.trigger, timers[window]) for window, pane in self._state.panes()]

    def close(self) -> None:
        """Store all changes.  Raises FunctionError for state that cannot be pickled."""
        try:
            self._state.flush()
        except PicklingError as error:
            raise FunctionError(
                f"The state of the windows cannot be pickled: {error} (for key {self._windows.key!r}).  Keep numbers, "
                "texts, tuples, lists and dicts, or objects of a module that executors can import."
            ) from error

    def advance_watermark(self, time: int) -> None:
        """Fire the timers up to a watermark in ms; one that is not greater than the last changes nothing."""
        if time <= self._state.watermark:
            return
        self._state.watermark = time
        with self._blaming():
            while (timer := self._state.event_timers.pop_due(time)) is not None:
                self._windows.fire_timer(*timer, in_event_time=True)

    def advance_processing_time(self, time: int) -> None:
        """Fire the timers up to a processing time in ms; the clock does not go back."""
        self._clock.processing_time = max(time, self._clock.processing_time)
        with self._blaming():
            while (timer := self._state.processing_timers.pop_due(time)) is not None:
                self._windows.fire_timer(*timer, in_event_time=False)

    def process_elements(
        self,
        rows: pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]],
        timestamps: npt.NDArray[np.int64] | Sequence[int],
    ) -> None:
        """Take rows in order of arrival, with times in ms, all at once where that makes no difference."""
        if not len(timestamps):
            return
        times = np.asarray(timestamps, np.int64)
        with self._blaming():
            self._take_rows(Rows(rows), times)

    def process_element(self, row: Mapping[str, Any], timestamp: int) -> None:
        """Take one row, with its event time in ms."""
        with self._blaming():
            self._windows.take(row, timestamp)

    def _take_rows(self, rows: Rows, times: Times) -> None:
        # The arrays of a single row take up to four times as long as the row.
        assigned = self._assigner.assign_batch(times, self._clock) if len(times) > 1 else None
        if assigned is None:
            self._take_each(rows, times)
        elif not self._assigner.merges:
            self._take_windows(rows, times, assigned)
        elif self._merge_at_once(rows, times):
            self._take_merging(rows, times, assigned)
        else:
            self._take_each(rows, times)

    def _take_each(self, rows: Rows, times: Times) -> None:
        for row, timestamp in zip(rows, times.tolist(), strict=True):
            self._windows.take(row, timestamp)

    def _take_windows(self, rows: Rows, times: Times, assigned: list[Assigned]) -> None:
        """Take rows by window; take rows one by one if they may make their window fire."""
        taken = np.zeros(len(times), bool)
        one_by_one: list[tuple[int, Window]] = []
        for window, places in assigned:
            if not self._windows.is_late(window):
                taken[slice(None) if places is None else places] = True
                chosen = times if places is None else times[places]
                if not self._windows.add_all(window, rows.take(places), chosen):
                    one_by_one += [(place, window) for place in (range(len(times)) if places is None else places)]
        if one_by_one:
            chosen = np.unique([place for place, _ in one_by_one])
            listed = dict(zip(chosen.tolist(), rows.take(chosen), strict=True))
            for place, window in sorted(one_by_one, key=itemgetter(0)):
                self._windows.add(window, listed[place], int(times[place]))
        if not taken.all():
            late = [place for place in np.flatnonzero(~taken) if self._windows.is_behind(int(times[place]))]
            self.late += rows.take(np.array(late, np.intp))

    def _take_merging(self, rows: Rows, times: Times, assigned: list[Assigned]) -> None:
        """Take rows by window, after merging it; take rows one by one if they may make their window fire."""
        one_by_one: list[Places] = []
        for window, places in assigned:
            chosen = times if places is None else times[places]
            if not self._windows.add_all(self._windows.merged(window), rows.take(places), chosen):
                one_by_one.append(np.arange(len(times)) if places is None else places)
        if one_by_one:
            in_order = np.sort(np.concatenate(one_by_one))
            self._take_each(rows.take(in_order), times[in_order])

    def _merge_at_once(self, rows: Rows, times: Times) -> bool:
        """Return whether rows of windows that merge can be taken by window.

        No row may be late.  Rows that are kept must stay in the order that merging gives.
        """
        if self._windows.folding is None or not (self._trigger.stateless and self._trigger.first_row_decides):
            return False
        earliest = int(times.argmin())
        (row,) = rows.take(np.array([earliest], np.intp))
        first = self._assigner.assign_windows(row, int(times[earliest]), self._clock)
        return all(window.max_timestamp() > self._state.watermark for window in first)

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Give an error of a user's function the key and the window."""
        try:
            yield
        except TidegateError:
            raise
        except Exception as error:
            window = self._windows.current
            where = f"key {self._windows.key!r}" + ("" if window is None else f" and window {window}")
            sentence = f"A function of the windows raised {type(error).__name__}: {error} (for {where})."
            raise FunctionError(sentence) from error
