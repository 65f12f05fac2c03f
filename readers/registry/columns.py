"""Decodes a column of values, each with its own schema from a registry, to one type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import conform_each, spark_schema
from tidegate.readers.registry.avro_values import AvroValues
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.registry.protobuf_values import ProtobufValues
from tidegate.readers.registry.schemas import RegisteredSchema, registry_of
from tidegate.readers.registry.wire import HEADER_BYTES, schema_id_of

__all__ = ["Form", "Mode", "RegistryColumn", "type_of_subject"]

Form: TypeAlias = Literal["avro", "protobuf"]
Mode: TypeAlias = Literal["FAILFAST", "PERMISSIVE"]
_Decode: TypeAlias = Callable[[Sequence[bytes]], pa.StructArray]


@dataclass(frozen=True, slots=True)
class RegistryColumn:
    """Decodes values to one type; picklable.

    form: of the values.
    kind: their type; fields go by name, and one that a value's own schema lacks is null.
    mode: the policy for a value that cannot be decoded: "FAILFAST" raises CorruptDataError, "PERMISSIVE" makes it null.
    message: the full name of the Protobuf message; None: the first of its schema.
    """

    registry: RegistryConfig
    form: Form
    kind: pa.StructType
    mode: Mode = "FAILFAST"
    message: str | None = None

    def decoded(self, column: pa.Array) -> pa.StructArray:
        """Return the decoded values; a null stays null.

        Raises CorruptDataError, see ``mode``; also raises what ``SchemaRegistry.schema`` raises.
        """
        values: list[bytes | None] = column.to_pylist()
        rows_of: dict[int | None, list[int]] = {}
        for row, value in enumerate(values):
            if value is not None:
                rows_of.setdefault(schema_id_of(value), []).append(row)
        parts, places = [pa.nulls(1, self.kind)], np.zeros(len(values), np.int64)
        decoded = 1
        for schema_id, rows in rows_of.items():
            part = self._part(schema_id, [values[row] or b"" for row in rows])
            places[rows] = np.arange(decoded, decoded + len(rows))
            decoded += len(rows)
            parts.append(part)
        return pa.concat_arrays(parts).take(pa.array(places))

    def _part(self, schema_id: int | None, values: Sequence[bytes]) -> pa.StructArray:
        decode = None if schema_id is None else _decoder(self.registry, self.form, self.message, schema_id)
        if decode is None:
            if self.mode == "FAILFAST":
                raise CorruptDataError(f"a value {_why(schema_id, self.form)}; set mode to PERMISSIVE for null")
            return pa.nulls(len(values), self.kind)
        structs = decode(values)
        bad = np.asarray(structs.is_null())
        batch, misfits = conform_each(pa.RecordBatch.from_struct_array(structs), pa.schema(list(self.kind)))
        for rows in misfits.values():
            bad |= rows
        if self.mode == "FAILFAST" and bad.any():
            raise CorruptDataError(
                f"a value does not fit its schema {schema_id}, or that does not fit the type of the column; set mode "
                "to PERMISSIVE for null"
            )
        return pa.StructArray.from_arrays(batch.columns, fields=list(self.kind), mask=pa.array(bad))


def type_of_subject(registry: RegistryConfig, form: Form, subject: str, message: str | None = None) -> pa.StructType:
    """Return the type of the newest schema of a subject, as Spark has it.

    Raises CorruptDataError for a schema of another form, OptionError for one that Spark cannot hold, and for a subject
    that is not there.
    """
    _, schema = registry_of(registry).latest(subject)
    if schema.kind.lower() != form:
        raise CorruptDataError(f"the schema of {subject!r} is of the type {schema.kind}, not {form.upper()}")
    kind = AvroValues(schema).kind if form == "avro" else ProtobufValues(schema, message).kind
    return pa.struct(list(spark_schema(pa.schema(list(kind)))))


@lru_cache(maxsize=1000)
def _decoder(registry: RegistryConfig, form: Form, message: str | None, schema_id: int) -> _Decode | None:
    schema = registry_of(registry).schema(schema_id)
    if schema is None or schema.kind.lower() != form:
        return None
    return _avro_decoder(schema) if form == "avro" else ProtobufValues(schema, message).decode


def _avro_decoder(schema: RegisteredSchema) -> _Decode:
    values = AvroValues(schema)
    names = [field.name for field in values.kind]
    return lambda whole: values.decode([value[HEADER_BYTES:] for value in whole], names)


def _why(schema_id: int | None, form: Form) -> str:
    if schema_id is None:
        return "is not in Confluent's wire format, which begins with a byte 0 and the id of a schema"
    return f"names the schema {schema_id}, but the registry has no {form} schema of that id"
