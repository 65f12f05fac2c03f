"""Evictors: they remove rows from a pane that fires, before or after the window function sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from typing_extensions import Self

from tidegate.windows.callables import check_delta
from tidegate.windows.contexts import EvictorContext
from tidegate.windows.rows import RowsReader
from tidegate.windows.window import Window, duration_ms, whole_number


class TimestampedValue(NamedTuple):
    """A row and its event time in milliseconds."""

    value: Mapping[str, Any]
    timestamp: int


class Evictor(RowsReader, ABC):
    """Removes rows from a pane whenever it fires.  Removed rows do not come back."""

    @abstractmethod
    def evict_before(
        self, elements: Sequence[TimestampedValue], size: int, window: Window, ctx: EvictorContext
    ) -> Sequence[TimestampedValue]:
        """Return the rows that stay, before the window function is called.

        elements: the rows of the pane in order of arrival.
        size: their number, at least 1.
        """

    @abstractmethod
    def evict_after(
        self, elements: Sequence[TimestampedValue], size: int, window: Window, ctx: EvictorContext
    ) -> Sequence[TimestampedValue]:
        """Return the rows that stay, after the window function was called.

        elements: the rows that ``evict_before`` left.
        size: their number, which may be 0.
        """


class _OneSided(Evictor):
    """Removes rows by one rule, either before or after the window function."""

    def __init__(self, *, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    @abstractmethod
    def kept(self, elements: Sequence[TimestampedValue]) -> Sequence[TimestampedValue]:
        """Return the rows that stay, of at least one, in order of arrival."""

    def evict_before(
        self, elements: Sequence[TimestampedValue], size: int, window: Window, ctx: EvictorContext
    ) -> Sequence[TimestampedValue]:
        """Return the rows that stay, before the window function is called."""
        return elements if self.do_evict_after else self.kept(elements)

    def evict_after(
        self, elements: Sequence[TimestampedValue], size: int, window: Window, ctx: EvictorContext
    ) -> Sequence[TimestampedValue]:
        """Return the rows that stay, after the window function was called."""
        return self.kept(elements) if self.do_evict_after and elements else elements


class CountEvictor(_OneSided):
    """Keeps the last rows."""

    reads_rows = False

    def __init__(self, max_count: int, *, do_evict_after: bool) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self.max_count = max_count

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> Self:  # noqa: FBT002 - as in Flink's Python API
        """Return an evictor that keeps the last ``max_count`` rows.

        Raises OptionError if ``max_count`` is not a whole number, or is negative.
        """
        return cls(whole_number("max_count", max_count, 0, f"of {cls.__name__}"), do_evict_after=do_evict_after)

    def kept(self, elements: Sequence[TimestampedValue]) -> Sequence[TimestampedValue]:
        """Return the last rows."""
        return elements[max(0, len(elements) - self.max_count) :]


class DeltaEvictor(_OneSided):
    """Keeps the rows that are near the last one."""

    def __init__(
        self,
        threshold: float,
        delta_function: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
        *,
        do_evict_after: bool,
    ) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self.threshold, self.delta_function = threshold, delta_function

    @classmethod
    def of(
        cls,
        threshold: float,
        delta_function: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
        do_evict_after: bool = False,  # noqa: FBT002 - as in Flink's Python API
    ) -> Self:
        """Return an evictor that removes rows whose delta to the last row is at least the threshold.

        delta_function: takes a row and the last row, and returns their delta.
        Raises OptionError if the threshold is neither a number nor a timedelta, or the function does not take two rows.
        """
        check_delta(threshold, delta_function, cls.__name__)
        return cls(threshold, delta_function, do_evict_after=do_evict_after)

    def kept(self, elements: Sequence[TimestampedValue]) -> Sequence[TimestampedValue]:
        """Return the rows near the last one."""
        last = elements[-1].value
        return [element for element in elements if not self.delta_function(element.value, last) >= self.threshold]


class TimeEvictor(_OneSided):
    """Keeps the rows of the last stretch of event time."""

    reads_rows = False

    def __init__(self, window_size: int, *, do_evict_after: bool) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self.window_size = window_size

    @classmethod
    def of(cls, window_size: timedelta, do_evict_after: bool = False) -> Self:  # noqa: FBT002 - as in Flink's Python API
        """Return an evictor that keeps rows less than ``window_size`` older than the latest row of the pane.

        Raises OptionError if ``window_size`` is negative.
        """
        size_ms = duration_ms("window_size", window_size, 0, f"of {cls.__name__}")
        return cls(size_ms, do_evict_after=do_evict_after)

    def kept(self, elements: Sequence[TimestampedValue]) -> Sequence[TimestampedValue]:
        """Return the rows near the latest event time."""
        cutoff = max(element.timestamp for element in elements) - self.window_size
        return [element for element in elements if element.timestamp > cutoff]
