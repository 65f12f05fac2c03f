"""Event times in Avro and Protobuf values, whose schemas are in a registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.numpy_arrays import are_null, int64_values, integers
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.event_time.unit_assigner import UnitAssigner, check_pointer, tokens_of
from tidegate.readers.event_time.units import TimeUnit, assigned_times
from tidegate.readers.registry.client import RegistryConfig
from tidegate.readers.registry.columns import Form, fields_at


@dataclass(frozen=True, slots=True)
class RegistryTimestamp(UnitAssigner):
    """A field of record values in Confluent's wire format, in which each value names its own schema.

    form: the form of the values; values in another form have no time.
    pointer: the pointer to the field, such as "/order/created" or "/events/0/at" (RFC 6901).
    unit: the unit of numbers, or "iso8601" for texts; None: not known yet.  A field with a type of times, such as
        Avro's timestamp-millis and date, or google.protobuf.Timestamp, needs none.

    Raises ValueError for a malformed pointer or an unknown unit.  In addition to the errors of all assigners, a call
    raises ConnectorError if the registry refuses, and DeadlineError if it does not answer.
    """

    form: Form
    pointer: str
    registry: RegistryConfig
    unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        check_pointer(self.pointer)
        if not self.pointer:
            raise ValueError(f"expected a pointer to a field, such as {self.form}:/order/created")
        UnitAssigner.__post_init__(self)  # super() does not work in the class that dataclass(slots=True) creates

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the field is missing or not a time.

        A field with a type of times needs no unit.
        """
        times, are_missing = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, np.bool_)
        for rows, values in self._fields(batch):
            if pa.types.is_string(values.type):
                part = assigned_times(values, self.unit)
            elif not _is_time(values.type) and (self.unit is None or self.unit == "iso8601"):
                part = pc.if_else(pc.equal(values, 0), 0, pa.scalar(None, pa.int64()))
            else:
                part = times_ms(values, None if _is_time(values.type) else self.unit)
            times[rows], are_missing[rows] = int64_values(part), are_null(part)
        return integers(times, pa.int64(), are_missing)

    def times_by_own_units(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times: by the type of a field, or by the unit that the value itself shows."""
        return pc.coalesce(self(batch), UnitAssigner.times_by_own_units(self, batch))

    def _values(self, batch: pa.RecordBatch) -> Iterable[object]:
        found: list[object] = [None] * batch.num_rows
        for rows, values in self._fields(batch):
            # A time counts as a number of milliseconds, whose unit is detected as milliseconds.
            plain = times_ms(values, None) if _is_time(values.type) else values
            for row, value in zip(rows, plain.to_pylist(), strict=True):
                found[row] = value
        return found

    def _fields(self, batch: pa.RecordBatch) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        return fields_at(self.registry, self.form, tokens_of(self.pointer), batch.column("value"), headers)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
