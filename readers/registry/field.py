"""Reads one field of values of one schema, as columns; the other fields are skipped, not decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.registry.schemas import RegisteredSchema
from tidegate.readers.registry.wire import message_indexes

if TYPE_CHECKING:
    from tidegate.readers.registry.avro_values import AvroValues
    from tidegate.readers.registry.protobuf_values import ProtobufValues

_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_KEPT = (kinds.is_timestamp, kinds.is_date, kinds.is_integer, kinds.is_floating, kinds.is_string)


def fields_of(
    schema: RegisteredSchema, form: str, tokens: Sequence[str], values: Sequence[bytes]
) -> Iterator[tuple[list[int], pa.Array]]:
    """Yield the places of some values, and their fields: times, dates, numbers or texts.

    form: "avro" or "protobuf".
    tokens: the names of the fields, from the top down, with the indexes of arrays.
    values: with their headers.

    A field that is not set is null, and so is the zero of a Protobuf number without presence, which is not written.
    """
    rows_of: dict[tuple[int, ...], list[int]] = {}
    for row, value in enumerate(values):
        with suppress(ValueError, IndexError):
            rows_of.setdefault(message_indexes(value)[0] if form == "protobuf" else (), []).append(row)
    for indexes, rows in rows_of.items():
        decoder = _decoder(schema, form, tokens[0], indexes)
        if decoder is not None and decoder.kind.get_field_index(tokens[0]) >= 0:
            yield rows, _at(decoder.decode([values[row] for row in rows]), tokens)


def _decoder(
    schema: RegisteredSchema, form: str, name: str, indexes: tuple[int, ...]
) -> AvroValues | ProtobufValues | None:
    """Return what decodes one field.  Each form loads a library, which other queries do not need."""
    if form == "avro":
        from tidegate.readers.registry.avro_values import AvroValues

        return schema.decoder((form, name), lambda: AvroValues(schema, [name]))
    from tidegate.readers.registry.protobuf_values import ProtobufValues, messages_of

    try:
        messages = messages_of(schema)
        message = messages.message(indexes).full_name
    except CorruptDataError:
        # Nothing is kept for indexes without a message: values may name any number of them.
        return None
    return schema.decoder((form, name, message), lambda: ProtobufValues(messages, message, [name], zeros_are_null=True))


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
