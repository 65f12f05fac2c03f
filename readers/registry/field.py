"""Reads one field of values of one schema, as columns; the other fields are skipped, not decoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.registry.schemas import RegisteredSchema, memory_of
from tidegate.readers.registry.wire import HEADER_BYTES, message_indexes

ReadField: TypeAlias = Callable[[Sequence[bytes]], Iterator[tuple[list[int], pa.Array]]]
"""Takes values with their headers; yields the places of some, and their fields: times, dates, numbers or texts."""

_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_KEPT = (kinds.is_timestamp, kinds.is_date, kinds.is_integer, kinds.is_floating, kinds.is_string)


def field_reader(schema: RegisteredSchema, form: str, tokens: Sequence[str]) -> tuple[ReadField | None, int]:
    """Return a function that reads a field of values, and its memory; None: no value of the schema has the field.

    form: "avro" or "protobuf".
    tokens: the names of the fields, from the top down, with the indexes of arrays.

    A field that is not set is null, and so is the zero of a Protobuf number without presence, which is not written.
    """
    if schema.kind != form.upper():
        return None, 0
    with suppress(CorruptDataError, OptionError):
        # Each form loads a library, which other queries do not need.
        return _of_avro(schema, tokens) if form == "avro" else _of_protobuf(schema, tokens)
    return None, 0


def _of_avro(schema: RegisteredSchema, tokens: Sequence[str]) -> tuple[ReadField | None, int]:
    from tidegate.readers.registry.avro_values import AvroValues

    values, wanted = AvroValues(schema, tokens[:1]), set(tokens[:1])
    if not wanted.issubset(values.names):
        return None, 0
    kind = values.kind(wanted)

    def read(whole: Sequence[bytes]) -> Iterator[tuple[list[int], pa.Array]]:
        yield [*range(len(whole))], _at(values.decode([value[HEADER_BYTES:] for value in whole], wanted), tokens)

    return read, memory_of(kind)


def _of_protobuf(schema: RegisteredSchema, tokens: Sequence[str]) -> tuple[ReadField, int]:
    from tidegate.readers.registry.protobuf_schema import ProtobufSchema
    from tidegate.readers.registry.protobuf_values import ProtobufValues

    messages = ProtobufSchema(schema)

    def values_of(indexes: tuple[int, ...]) -> tuple[ProtobufValues | None, int]:
        with suppress(IndexError, CorruptDataError, OptionError):
            values = ProtobufValues(messages, messages.message(indexes).full_name, tokens[:1], zeros_are_null=True)
            return values, memory_of(values.kind)
        return None, memory_of(None)

    def read(whole: Sequence[bytes]) -> Iterator[tuple[list[int], pa.Array]]:
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, value in enumerate(whole):
            with suppress(ValueError, IndexError):
                rows_of.setdefault(message_indexes(value)[0], []).append(row)
        for indexes, rows in rows_of.items():
            if (values := schema.decoder((*tokens[:1], indexes), partial(values_of, indexes))) is not None:
                yield rows, _at(values.decode([whole[row] for row in rows]), tokens)

    return read, memory_of(None, messages.descriptors)


def _at(values: pa.Array, tokens: Sequence[str]) -> pa.Array:
    for token in tokens:
        kind = values.type
        if kinds.is_struct(kind) and kind.get_field_index(token) >= 0:
            values = pc.struct_field(values, token)
        elif kinds.is_list(kind) and _INDEX.fullmatch(token):
            has_item = pc.greater(pc.list_value_length(values), int(token))
            places = pc.add(values.offsets[:-1].cast(pa.int64()), int(token))
            values = values.values.take(pc.if_else(has_item, places, pa.scalar(None, pa.int64())))
        else:
            return pa.nulls(len(values))
    if kinds.is_decimal(values.type):  # Protobuf's uint64
        return values.cast(pa.float64())
    return values if any(is_kept(values.type) for is_kept in _KEPT) else pa.nulls(len(values))
