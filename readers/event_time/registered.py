"""Event times in Avro and Protobuf values, whose schemas are in a registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.readers.event_time.unit_assigner import UnitAssigner, check_pointer, tokens_of
from tidegate.readers.event_time.units import TimeUnit, value_times
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.registry.schemas import registry_of
from tidegate.readers.registry.wire import Instant, schema_id_of

if TYPE_CHECKING:
    from tidegate.readers.registry.avro_field import ReadField

__all__ = ["RegistryForm", "RegistryTimestamp"]

RegistryForm: TypeAlias = Literal["avro", "protobuf"]
"""The forms of values in Confluent's wire format."""


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

    form: RegistryForm
    pointer: str
    registry: RegistryConfig
    unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        check_pointer(self.pointer)
        if not self.pointer:
            raise ValueError(f"expected a pointer to a field, such as {self.form}:/order/created")
        UnitAssigner.__post_init__(self)  # super() does not work in the class that dataclass(slots=True) creates

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the field is missing or not a time."""
        unit, fields = self._fixed_unit(), self._fields(batch)
        return pc.coalesce(_instants(fields), value_times([_without_instant(field) for field in fields], unit))

    def times_by_own_units(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times: by the type of a field, or by the unit that the value itself shows."""
        return pc.coalesce(_instants(self._fields(batch)), UnitAssigner.times_by_own_units(self, batch))

    def _values(self, batch: pa.RecordBatch) -> Iterable[object]:
        # An Instant counts as a number of milliseconds, whose unit is detected as milliseconds.
        return (field.ms if isinstance(field, Instant) else field for field in self._fields(batch))

    def _fields(self, batch: pa.RecordBatch) -> list[object]:
        values: list[bytes | None] = batch.column("value").to_pylist()
        rows_of: dict[int, list[int]] = {}
        for row, value in enumerate(values):
            schema_id = schema_id_of(value)
            if schema_id is not None:
                rows_of.setdefault(schema_id, []).append(row)
        fields: list[object] = [None] * len(values)
        for schema_id, rows in rows_of.items():
            # A schema that is missing may come, so its absence is not kept with the readers.
            is_there = registry_of(self.registry).schema(schema_id) is not None
            read = _reader(self.registry, self.form, self.pointer, schema_id) if is_there else None
            if read is not None:
                for row, field in zip(rows, read([values[row] or b"" for row in rows]), strict=True):
                    fields[row] = field
        return fields


@lru_cache(maxsize=1000)
def _reader(registry: RegistryConfig, form: str, pointer: str, schema_id: int) -> ReadField | None:
    schema = registry_of(registry).schema(schema_id)
    if schema is None:
        return None
    # Each form loads a library, which other queries do not need.
    if form == "avro":
        from tidegate.readers.registry.avro_field import avro_field

        return avro_field(schema, tokens_of(pointer))
    from tidegate.readers.registry.protobuf_field import protobuf_field

    return protobuf_field(schema, tokens_of(pointer))


def _instants(fields: Sequence[object]) -> pa.Int64Array:
    return pa.array([field.ms if isinstance(field, Instant) else None for field in fields], pa.int64())


def _without_instant(field: object) -> object:
    return None if isinstance(field, Instant) else field
