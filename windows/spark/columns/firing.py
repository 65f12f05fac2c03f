"""What tidegate's triggers decide for many windows at once: NumPy arrays with a place for each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from tidegate.windows.spark.pages import EVENT, PROCESSING
from tidegate.windows.triggers.of_time import FIRE_TIME
from tidegate.windows.triggers.rows import COUNT
from tidegate.windows.window import MAX_TIME, MIN_TIME

Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]
Bools: TypeAlias = npt.NDArray[np.bool_]
OVER = MIN_TIME
"""The time of a time-out that has passed, and that the trigger did not clear."""


class Windows(NamedTuple):
    """Windows of keys.

    timers: the next timer of each, in ms.
    states: those of the trigger.
    waits: whether the trigger has a timer; otherwise its cleanup is due.
    held: which windows hold rows: others were purged.
    timeouts: when the time-out of each is over, in ms; NEVER: it has none; OVER: it had one, which may not come again.
    """

    starts: Ints
    ends: Ints
    timers: Ints
    states: Ints
    waits: Bools
    held: Bools
    timeouts: Ints


@dataclass(frozen=True)
class Firing:
    """When windows fire.

    clock: the column of the timers, which says in which time they are; None: the trigger has none.
    state: the name of the trigger's state, one whole number for each window; empty: it has none.
    at_end: windows fire at their last millisecond.
    late_waits: a row behind the end of its window sets a timer; otherwise the window fires at once.
    interval: windows also fire at its multiples, in ms; 0: they do not.  The state is the next of them.
    max_count: windows fire when so many rows have come; 0: they do not.  The state is the number of rows.
    purges: a window that fires loses its rows.
    timeout: windows also fire so long after a row, and at every timer, in ms; None: they do not.
    restarts: the time-out begins again with each batch of rows.
    """

    clock: str | None = None
    state: str = ""
    at_end: bool = False
    late_waits: bool = False
    interval: int = 0
    max_count: int = 0
    purges: bool = False
    timeout: int | None = None
    restarts: bool = False

    @property
    def no_state(self) -> int:
        """The state of a window without one."""
        return MAX_TIME if self.interval else 0

    def of_rows(self, times: Ints, ends: Ints) -> Ints:
        """Return the state of windows that hold only one row each, for the times of the rows."""
        if self.interval:
            # Java's remainder, and NumPy's fmod, has the sign of the dividend.
            return np.minimum(times - np.fmod(times, self.interval) + self.interval, ends - 1)
        return np.ones_like(times)

    def next_timers(self, windows: Windows, cleanups: Ints, watermark_ms: int) -> Ints:
        """Return the time of the next timer of each window.

        A timer that a row sets behind the watermark waits for the next watermark.
        """
        after_ms = min(watermark_ms, MAX_TIME - 1) + 1
        return np.where(windows.waits, np.maximum(self._first(windows.states, windows.ends), after_ms), cleanups)

    def fired(self, windows: Windows, time_ms: int) -> tuple[Ints, Ints]:
        """Return how often windows that wait fire up to a time, which all of them have due, and the states then.

        No row comes between these timers, so a window gives the same each time.
        """
        states, lasts = windows.states, windows.ends - 1
        if not self.interval:
            return np.ones_like(lasts), states
        firsts = self._first(states, windows.ends)
        multiples = (np.minimum(lasts, time_ms) - firsts) // self.interval + 1
        following = np.minimum(firsts + multiples * self.interval, lasts)
        is_over = lasts <= time_ms
        # The end of a window is also a time to fire, and need not be a multiple.
        at_end = is_over & ((lasts - firsts) % self.interval > 0)
        if time_ms >= MAX_TIME - 1:  # a window of all times has no multiples between the next one and its end
            is_endless = windows.ends == MAX_TIME
            multiples, at_end = np.where(is_endless, 1, multiples), np.where(is_endless, firsts < lasts, at_end)
        return multiples + at_end, np.where(is_over, lasts, following)

    def timers(self, state: int, end: int) -> list[int]:
        """Return the times of the trigger's timers of a window that waits."""
        return [min(state, end - 1), end - 1] if self.interval else [end - 1]

    def _first(self, states: Ints, ends: Ints) -> Ints:
        return np.minimum(states, ends - 1) if self.interval else ends - 1


_FIRINGS: Mapping[type[Trigger], Firing] = {
    EventTimeTrigger: Firing(EVENT, at_end=True),
    EndOfStreamTrigger: Firing(EVENT, at_end=True, late_waits=True),
    ProcessingTimeTrigger: Firing(PROCESSING, at_end=True),
    NeverTrigger: Firing(),
}
_CONTINUOUS = {ContinuousEventTimeTrigger: EVENT, ContinuousProcessingTimeTrigger: PROCESSING}


def firing_of(trigger: Trigger) -> Firing | None:
    """Return how a trigger decides in columns; None: it decides row by row."""
    # By their own classes: a subclass may decide in another way.
    if type(trigger) is PurgingTrigger:
        nested = firing_of(trigger.nested)
        return None if nested is None else replace(nested, purges=True)
    if type(trigger) is ContinuousEventTimeTrigger or type(trigger) is ContinuousProcessingTimeTrigger:
        return Firing(_CONTINUOUS[type(trigger)], FIRE_TIME.name, at_end=True, interval=trigger.interval)
    if type(trigger) is ProcessingTimeoutTrigger:
        nested = firing_of(trigger.nested)
        # It deletes timers of the other trigger, and with them a cleanup of the same time.
        if nested is None or nested.clock is not None or nested.timeout is not None:
            return None
        return replace(nested, timeout=trigger.timeout, restarts=trigger.reset_timer_on_new_record)
    if type(trigger) is CountTrigger:
        return Firing(state=COUNT.name, max_count=trigger.max_count)
    return _FIRINGS.get(type(trigger))


def numbers_of_sessions(codes: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the number of the session of each window: windows of one key that overlap or touch are one session."""
    order = np.lexsort((starts, codes))
    of_key, begins = codes[order], starts[order]
    ranked, ranks = np.unique(ends[order], return_inverse=True)
    # The latest end so far, for each key anew: a later key has greater numbers.
    latest = np.maximum.accumulate(ranks + of_key * len(ranked)) - of_key * len(ranked)
    is_new = np.ones(len(order), bool)
    is_new[1:] = (of_key[1:] != of_key[:-1]) | (begins[1:] > ranked[latest[:-1]])
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(is_new) - 1
    return groups


def begin_sessions(open_windows: tuple[Ints, Ints, Ints], windows: tuple[Ints, Ints, Ints]) -> Bools:
    """Return which windows of rows touch no open window of their key, and none of a row before them.

    Each is a code of its key, a start and an end.  The windows of rows are equally long; open windows do not touch.
    """
    (of_open, begins, finishes), (codes, starts, ends) = open_windows, windows
    if not len(codes):
        return np.zeros(0, bool)
    ranked, ranks = np.unique(np.concatenate((begins, starts, starts - (ends - starts), ends)), return_inverse=True)
    ranks += np.concatenate((of_open, codes, codes, codes)) * len(ranked)  # a later key has greater numbers
    begun, started, earliest, latest = np.split(ranks, np.cumsum([len(begins), len(starts), len(starts)]))
    order = np.argsort(started, kind="stable")
    lows = np.searchsorted(started[order], earliest)
    highs = np.searchsorted(started[order], latest, side="right")
    is_first: Bools = _least(order, lows, highs) == np.arange(len(order))
    if not len(begun):
        return is_first
    by_begin = np.argsort(begun)
    place = np.searchsorted(begun[by_begin], latest, side="right") - 1
    last = by_begin[np.maximum(place, 0)]
    touches_open: Bools = (place >= 0) & (of_open[last] == codes) & (finishes[last] >= starts)
    return is_first & ~touches_open


def _least(values: Places, lows: Places, highs: Places) -> Places:
    """Return the least value in each range, none of which is empty, by the minima of powers of two of places."""
    least, width, levels = np.empty(len(lows), np.intp), 1, values
    while True:
        fits = (highs - lows >= width) & (highs - lows < 2 * width)
        least[fits] = np.minimum(levels[lows[fits]], levels[highs[fits] - width])
        if (highs - lows < 2 * width).all():
            return least
        levels, width = np.minimum(levels[:-width], levels[width:]), 2 * width
