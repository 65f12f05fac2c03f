"""Decodes a column of values, each written by its own schema of a registry: to one type, or one field of each.

Avro resolves the writer's schema with the reader's.  Protobuf reads by numbers, so only the reader's message decodes,
and the writer's schema says which message a value is.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError, OptionError, TidegateError, needing
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import are_null
from tidegate.readers.arrow.conform import by_halves, conform, spark_schema
from tidegate.readers.registry.client import (
    LONG_IDS,
    VALUE_SCHEMA_ID,
    RegisteredSchema,
    RegistryConfig,
    SchemaId,
    framed,
    last_header,
    registry_of,
)

if TYPE_CHECKING:
    from tidegate.readers.avro.resolution import AvroSchema
    from tidegate.readers.registry.protobuf import ProtobufSchema

Form: TypeAlias = Literal["avro", "protobuf"]
"""The form of values in Confluent's wire format."""
Mode: TypeAlias = Literal["FAILFAST", "PERMISSIVE"]

_MOST_DECODERS = 1_000
_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_TIMES = (kinds.is_timestamp, kinds.is_date, kinds.is_integer, kinds.is_floating, kinds.is_string)
_LOG = logging.getLogger("tidegate.reader")


class Decoder(Protocol):
    """Decodes values to Arrow.

    kind: the type of a value.
    """

    kind: pa.DataType

    def decode(self, values: Sequence[bytes], /) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """Return values, each from its own bytes, and which of these bytes are one; what is not is null."""


@dataclass(frozen=True, slots=True)
class RegistryColumn:
    """Decodes values to one type; picklable.

    reader: the schema whose values the column has.
    subject: the subject of that schema, in whose context the ids are.
    message: the full name of the Protobuf message, which no other message stands for.
    kind: the type of a value, one of Spark's.
    names: the wanted fields; None: all that Spark can hold.
    id_header: the header that may hold the id of a value's schema.
    mode: the policy for a value that cannot be decoded: "FAILFAST" raises CorruptDataError, "PERMISSIVE" makes it null.
    """

    registry: RegistryConfig
    form: Form
    subject: str
    reader: RegisteredSchema
    message: str | None
    kind: pa.DataType
    mode: Mode = "FAILFAST"
    names: tuple[str, ...] | None = None
    id_header: str = VALUE_SCHEMA_ID

    def only(self, names: Collection[str]) -> RegistryColumn:
        """Return the column with only some fields of its values."""
        fields = [field for field in self.kind if field.name in names]
        return replace(self, kind=pa.struct(fields), names=tuple(field.name for field in fields))

    def writes_zero(self, path: Sequence[str]) -> bool:
        """Return whether a zero in a field was really written; Protobuf omits it from a field without presence.

        path: the names that lead to the field, through structs.
        """
        return self.form == "avro" or _messages(self.reader).has_presence(str(self.message), path)

    def decoded(self, values: pa.Array, headers: pa.Array | None = None) -> pa.Array:
        """Return the decoded values; a null stays null.

        Raises CorruptDataError, see ``mode``; also raises what ``judged`` raises.
        """
        array, problems = self.judged(values, headers)
        if problems and self.mode == "FAILFAST":
            raise CorruptDataError(f"a value {problems[min(problems)]}; set mode to PERMISSIVE for null")
        return array

    def judged(self, values: pa.Array, headers: pa.Array | None = None) -> tuple[pa.Array, Mapping[int, str]]:
        """Return the decoded values, and by row why a value cannot be decoded and is null, as a clause after "a value".

        headers: those of the same records, if an id may be in a header.

        Raises the errors of ``SchemaRegistry.schema``.
        """
        parts, places = [pa.nulls(1, self.kind)], np.zeros(len(values), np.int64)
        problems: dict[int, str] = {}
        decoded = 1
        ids = None if headers is None else last_header(headers, self.id_header)
        for group in _groups(self.form, values, ids):
            found = self._decoder(group)
            if isinstance(found, str):
                problems.update(dict.fromkeys(group.rows, found))
                continue
            array, good = by_halves(self._conformed, *found.decode(group.payloads), self.kind)
            bad = np.asarray(group.rows)[~good].tolist()
            problems.update(dict.fromkeys(bad, f"does not fit its schema {group.schema}"))
            if len(array) == len(values):
                return array, problems
            parts.append(array)
            places[group.rows] = np.arange(decoded, decoded + len(group.rows))
            decoded += len(group.rows)
        return pa.concat_arrays(parts).take(pa.array(places)), problems

    def _conformed(self, array: pa.Array) -> pa.Array:
        """Return values as Spark's type.  Raises BadRecordError for a time that is beyond its range."""
        return conform(pa.record_batch([array], ["value"]), pa.schema([("value", self.kind)])).column(0)

    def _decoder(self, group: _Group) -> Decoder | str:
        """Return what decodes values of one schema, or why nothing does."""
        if group.schema is None:
            return (
                "is not in Confluent's wire format, which begins with a byte 0 and the id of a schema, and its record "
                f"has no header {self.id_header}, or its headers were not given"
            )
        schema = registry_of(self.registry).schema(group.schema, self.subject)
        if schema is None:
            hint = LONG_IDS if group.schema == 0 else ""
            return f"names the schema {group.schema}, which the registry does not have{hint}"
        found = decoder_of(self.form, schema, self.reader, self.names, group.message, self.message)
        if isinstance(found, TidegateError):
            return f"of the schema {group.schema} cannot be read as one of {self.subject!r}: {found}"
        return found


def column_of_subject(
    registry: RegistryConfig, form: Form, subject: str, mode: Mode = "FAILFAST", message: str | None = None
) -> RegistryColumn:
    """Return the column with the type of the newest schema of a subject, in Spark's types.

    message: the full name of the Protobuf message; None: the first of that schema.

    A column of the value that Spark cannot hold is left out, with a warning.

    Raises CorruptDataError for a schema of another form.  Raises OptionError for a schema that Spark cannot hold, and
    for a missing subject or message.
    """
    reader = registry_of(registry).latest(subject)
    if reader.kind != form.upper():
        raise CorruptDataError(f"the schema of {subject!r} is of the type {reader.kind}, not {form.upper()}")
    problems: Mapping[str, object]
    if form == "avro":
        schema = _avro_schema(reader)
        kind, problems = (
            schema.kind,
            {name: schema.columns[name] for name in schema.columns.keys() - {*schema.readable}},
        )
    else:
        with needing("registry", "a value of Protobuf"):
            from tidegate.readers.registry.protobuf import ProtobufValues

        messages = _messages(reader)
        descriptor = messages.message((0,)) if message is None else messages.named(message)
        values = ProtobufValues(descriptor)
        kind, problems, message = values.kind, values.unreadable, descriptor.full_name
    for name, problem in problems.items():
        _LOG.warning("values of %r are decoded without their field %r: %s", subject, name, problem)
    (field,) = spark_schema(pa.schema([("value", kind)]))
    return RegistryColumn(registry, form, subject, reader, message, field.type, mode)


@lru_cache(maxsize=_MOST_DECODERS)
def decoder_of(
    form: Form,
    writer: RegisteredSchema,
    reader: RegisteredSchema,
    names: tuple[str, ...] | None,
    indexes: tuple[int, ...],
    message: str | None = None,
) -> Decoder | TidegateError:
    """Return what decodes values of one schema as another, or why they cannot be decoded.

    names: the wanted fields; None: all that Spark can hold.
    indexes: of the message in the writer's schema.
    message: the name of the message that alone is wanted; None: any, whose zeros are then null.
    """
    try:
        if form == "avro":
            with needing("registry", "a value in Avro"):
                from tidegate.readers.avro.records import AvroValues

            as_reader = _avro_schema(reader)
            wanted = None if names is None else [name for name in names if name in as_reader.columns]
            return AvroValues(_avro_schema(writer), as_reader, wanted)
        with needing("registry", "a value of Protobuf"):
            from tidegate.readers.registry.protobuf import ProtobufValues

        written = _messages(writer).message(indexes).full_name
        if message is not None and written != message:
            return CorruptDataError(f"it is a message {written}, not {message}")
        return ProtobufValues(_messages(reader).named(written), names, zeros_are_null=message is None)
    except (CorruptDataError, OptionError) as problem:
        return problem.with_traceback(None)


@lru_cache(maxsize=_MOST_DECODERS)
def _avro_schema(schema: RegisteredSchema) -> AvroSchema:
    with needing("registry", "a value in Avro"):
        from tidegate.readers.avro.resolution import AvroSchema

    schema.require("avro")
    try:
        return AvroSchema(json.loads(schema.text), [json.loads(text) for _, text in schema.references])
    except (ValueError, RecursionError):
        raise CorruptDataError("its schema is not a valid Avro schema") from None


@lru_cache(maxsize=_MOST_DECODERS)
def _messages(schema: RegisteredSchema) -> ProtobufSchema:
    from tidegate.readers.registry.protobuf import ProtobufSchema

    return ProtobufSchema(schema)


class _Group(NamedTuple):
    """Values that one schema has written; None: they name no schema."""

    schema: SchemaId | None
    message: tuple[int, ...]
    rows: list[int] | npt.NDArray[np.int64]
    payloads: list[bytes]


def _groups(form: Form, values: pa.BinaryArray, ids: pa.BinaryArray | None) -> list[_Group]:
    """Return all values but nulls.  ids: what headers name as their schemas; None: there are no headers."""
    if (ids is None or ids.null_count == len(ids)) and (one := _of_one_schema(form, values)):
        return [one]
    headers = [None] * len(values) if ids is None else ids.to_pylist()
    groups: dict[tuple[SchemaId | None, tuple[int, ...]], _Group] = {}
    for row, (value, header) in enumerate(zip(values.to_pylist(), headers, strict=True)):
        if value is None:
            continue
        schema, message, payload = framed(value, header, form) or (None, (), value)
        group = groups.setdefault((schema, message), _Group(schema, message, [], []))
        cast("list[int]", group.rows).append(row)
        group.payloads.append(payload)
    return [*groups.values()]


def _of_one_schema(form: Form, values: pa.BinaryArray) -> _Group | None:
    """Return all values but nulls if they begin with the same schema, which takes a tenth of the time."""
    present: list[bytes] = values.drop_null().to_pylist()
    of_first = framed(present[0], None, form) if present else None
    if of_first is None:
        return None
    size = len(present[0]) - len(of_first.payload)
    named = present[0][:size]
    if not all(value.startswith(named) for value in present):
        return None
    return _Group(of_first.schema, of_first.message, np.flatnonzero(~are_null(values)), [v[size:] for v in present])


def fields_at(
    registry: RegistryConfig, form: Form, tokens: Sequence[str], values: pa.Array, headers: pa.Array | None
) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """Yield the places of some values, and one field of them, read by their own schemas: times, numbers or texts.

    tokens: the names of the fields, from the top down, with the indexes of arrays; the branches of a union are passed.

    A field that is not set is null, and so is the zero of a Protobuf number without presence, which is not written.
    """
    ids = None if headers is None else last_header(headers, VALUE_SCHEMA_ID)
    for group in _groups(form, values, ids):
        schema = None if group.schema is None else registry_of(registry).schema(group.schema)
        if schema is None:
            continue
        decoder = decoder_of(form, schema, schema, (tokens[0],), group.message)
        if not isinstance(decoder, TidegateError) and _leads_on(decoder.kind, tokens[0]):
            yield from _fields(decoder.decode(group.payloads)[0], np.asarray(group.rows), tokens)


def _leads_on(kind: pa.DataType, token: str) -> bool:
    """Return whether a type has a field of a name, or is a union of records of which one has it."""
    if not kinds.is_struct(kind):
        return bool(kinds.is_list(kind))
    return kind.get_field_index(token) >= 0 or any(_leads_on(member.type, token) for member in _members(kind))


def _members(kind: pa.StructType) -> list[pa.Field]:
    """Return the branches of a union of several types."""
    fields = [*kind]
    return fields if [field.name for field in fields] == [f"member{number}" for number in range(len(fields))] else []


def _fields(
    values: pa.Array, rows: npt.NDArray[np.int64], tokens: Sequence[str]
) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    if not tokens:
        if kinds.is_decimal(values.type):  # Protobuf's uint64
            values = values.cast(pa.float64())
        if any(is_time(values.type) for is_time in _TIMES):
            yield rows, values
        return
    token, *remainder = tokens
    kind = values.type
    if kinds.is_list(kind) and _INDEX.fullmatch(token):
        has_item = pc.greater(pc.list_value_length(values), int(token))
        places = pc.add(values.offsets[:-1].cast(pa.int64()), int(token))
        items = values.values.take(pc.if_else(has_item, places, pa.scalar(None, pa.int64())))
        yield from _fields(items, rows, remainder)
    elif kinds.is_struct(kind) and kind.get_field_index(token) >= 0:
        yield from _fields(pc.struct_field(values, token), rows, remainder)
    elif kinds.is_struct(kind):
        for member in _members(kind):
            branch = pc.struct_field(values, member.name)
            yield from _fields(branch.drop_null(), rows[np.asarray(branch.is_valid())], tokens)
