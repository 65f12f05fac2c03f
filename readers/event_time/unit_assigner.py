"""The base of assigners for event times whose type does not show their unit."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

import pyarrow as pa
from typing_extensions import Self

from tidegate.errors import did_you_mean
from tidegate.readers.event_time.units import TimeUnit, detect_unit, value_times


class UnitAssigner(ABC):
    """The base of assigners for times in headers and values.

    The unit is declared, or the driver detects it once, and it is fixed then.
    """

    __slots__ = ()
    unit: TimeUnit | None

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in get_args(TimeUnit):
            raise ValueError(
                f"expected a unit of s, ms, us, ns or iso8601{did_you_mean(self.unit, get_args(TimeUnit))}"
            )

    def detect(self, batch: pa.RecordBatch) -> TimeUnit | None:
        """Return the unit of the first usable value in ``batch``, see detect_unit.

        Only the driver calls it, and only while the unit is unknown.
        """
        return detect_unit(self._values(batch))

    def times_by_own_units(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times, each by the unit that the value itself shows; see detect_unit."""
        values = [*self._values(batch)]
        return pa.array([None if value is None else _time_by_own_unit(value) for value in values], pa.int64())

    def with_unit(self, unit: TimeUnit) -> Self:
        """Return this assigner with its unit fixed."""
        return replace(self, unit=unit)  # type: ignore[type-var]  # each assigner is a dataclass

    @abstractmethod
    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in ms, rounded down; null without a time, or if the unit of a value is not known."""

    @abstractmethod
    def _values(self, batch: pa.RecordBatch) -> Iterable[object]:
        """Return the values that hold the event times, row by row."""


def check_pointer(pointer: str) -> None:
    """Raise ValueError unless a text is a JSON pointer (RFC 6901)."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("expected a JSON pointer that begins with '/', such as json:/order/created")
    if re.search("~(?![01])", pointer):
        raise ValueError("expected a JSON pointer in which '~' is written ~0 and, within a name, '/' is written ~1")


def tokens_of(pointer: str) -> list[str]:
    """Return the names in a JSON pointer, from the top down."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _time_by_own_unit(value: object) -> int | None:
    unit = detect_unit([value])
    if unit is None:
        return None
    return value_times([value], unit)[0].as_py()  # type: ignore[no-any-return]
