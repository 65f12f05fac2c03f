"""Reads one field of Avro values of one schema; the other fields of a record are skipped, not decoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.registry.avro_values import AvroValues
from tidegate.readers.registry.schemas import RegisteredSchema
from tidegate.readers.registry.wire import HEADER_BYTES, Instant

__all__ = ["ReadField", "avro_field"]

ReadField: TypeAlias = Callable[[Sequence[bytes]], list[object]]
"""Returns the field of each value, whose header is included: a number, a text or an Instant."""

_INDEX = re.compile("0|[1-9][0-9]{0,9}")


def avro_field(schema: RegisteredSchema, tokens: Sequence[str]) -> ReadField | None:
    """Return a function that reads a field of values; None: the schema is not an Avro record, or has no such field.

    tokens: the names of the fields, from the top down, with the indexes of arrays.
    """
    if schema.kind != "AVRO" or not tokens:
        return None
    try:
        values = AvroValues(schema, tokens[:1])
        if tokens[0] not in values.names:
            return None
        values.kind({tokens[0]})
    except (CorruptDataError, OptionError):
        return None

    def read(whole: Sequence[bytes]) -> list[object]:
        records = values.decode([value[HEADER_BYTES:] for value in whole], {tokens[0]})
        return _plain(_at(records, tokens))

    return read


def _at(values: pa.Array, tokens: Sequence[str]) -> pa.Array | None:
    for token in tokens:
        kind = values.type
        if pa.types.is_struct(kind) and kind.get_field_index(token) >= 0:
            values = pc.struct_field(values, token)
        elif pa.types.is_list(kind) and _INDEX.fullmatch(token):
            items = [None if item is None or int(token) >= len(item) else item[int(token)] for item in values]
            values = pa.array([None if item is None else item.as_py() for item in items], kind.value_type)
        else:
            return pa.nulls(len(values))
    return values


def _plain(values: pa.Array) -> list[object]:
    kind = values.type
    if pa.types.is_timestamp(kind):
        per_ms = {"us": 1000, "ns": 1_000_000}.get(kind.unit, 1)
        return [None if at is None else Instant(at // per_ms) for at in values.view(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind):
        return [None if at is None else Instant(at * 86_400_000) for at in values.view(pa.int32()).to_pylist()]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind):
        return values.to_pylist()  # type: ignore[no-any-return]
    return [None] * len(values)
