"""Decodes a column of values, each with its own schema from a registry, to one type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import BadRecordError, CorruptDataError
from tidegate.readers.arrow.conform import conform, spark_schema
from tidegate.readers.registry.avro_values import AvroValues, record_names
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.registry.protobuf_values import ProtobufSchema, ProtobufValues, messages_of
from tidegate.readers.registry.schemas import RegisteredSchema, registry_of
from tidegate.readers.registry.wire import schema_id_of

Form: TypeAlias = Literal["avro", "protobuf"]
Mode: TypeAlias = Literal["FAILFAST", "PERMISSIVE"]


@dataclass(frozen=True, slots=True)
class RegistryColumn:
    """Decodes values to one type; picklable.

    kind: the type to decode to; fields match by name, and a field that a value's own schema lacks is null.
    mode: the policy for a value that cannot be decoded: "FAILFAST" raises CorruptDataError, "PERMISSIVE" makes it null.
    names: the names of the record from ``record_names``, or the full name of the Protobuf message.  Values with other
        names cannot be decoded.  Empty: any Avro record.
    """

    registry: RegistryConfig
    form: Form
    kind: pa.StructType
    mode: Mode = "FAILFAST"
    names: tuple[str, ...] = ()

    def decoded(self, column: pa.Array) -> pa.StructArray:
        """Return the decoded values; a null stays null.

        Raises CorruptDataError, see ``mode``; also raises the errors of ``SchemaRegistry.schema``.
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
        decoder = self._decoder(schema_id)
        if decoder is None:
            if self.mode == "FAILFAST":
                raise CorruptDataError(f"a value {self._why(schema_id)}; set mode to PERMISSIVE for null")
            return pa.nulls(len(values), self.kind)
        structs = decoder.decode(values)
        batch, fits = _fitting(pa.RecordBatch.from_struct_array(structs), pa.schema(list(self.kind)))
        bad = np.asarray(structs.is_null()) | ~fits
        if self.mode == "FAILFAST" and bad.any():
            raise CorruptDataError(
                f"a value does not fit its schema {schema_id}, or the schema does not fit the type of the column; set "
                "mode to PERMISSIVE for null"
            )
        return pa.StructArray.from_arrays(batch.columns, fields=list(self.kind), mask=pa.array(bad))

    def _decoder(self, schema_id: int | None) -> AvroValues | ProtobufValues | None:
        schema = None if schema_id is None else registry_of(self.registry).schema(schema_id)
        if schema is None:
            return None
        form, names, wanted = self.form, self.names, tuple(field.name for field in self.kind)
        return schema.decoder((form, names, wanted), lambda: _decoder(schema, form, names, wanted))

    def _why(self, schema_id: int | None) -> str:
        if schema_id is None:
            return "is not in Confluent's wire format, which begins with a byte 0 and the id of a schema"
        wanted = f" with {self.names[0]}" if self.names else ""
        known = f"{self.form} schema{wanted} of that id whose fields Spark can hold"
        return f"names the schema {schema_id}, but the registry has no {known}"


def _fitting(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
    """Return rows as batches of a schema, and which of them fit it; what does not fit is null."""
    rows = batch.num_rows
    try:
        return conform(batch, schema), np.ones(rows, bool)
    except (BadRecordError, CorruptDataError):
        if rows <= 1:
            return conform(pa.record_batch([pa.nulls(rows)], [""]), schema), np.zeros(rows, bool)
    hopeless = [column for column in range(batch.num_columns) if _never_fits(batch.select([column]), schema)]
    if hopeless:
        good = np.ones(rows, bool)
        for at in hopeless:
            good &= np.asarray(batch.column(at).is_null())
            batch = batch.set_column(at, batch.schema.field(at), pa.nulls(rows, batch.column(at).type))
        others, fits = _fitting(batch, schema)
        return others, fits & good
    halves = [_fitting(part, schema) for part in (batch.slice(0, rows // 2), batch.slice(rows // 2))]
    whole = pa.Table.from_batches([part for part, _ in halves]).combine_chunks().to_batches()
    return whole[0], np.concatenate([fits for _, fits in halves])


def _never_fits(column: pa.RecordBatch, schema: pa.Schema) -> bool:
    """Return whether a column has values, and none of its type fits."""
    if column.column(0).null_count == column.num_rows:
        return False
    try:
        conform(column.slice(0, 0), schema)
    except (BadRecordError, CorruptDataError):
        return True
    return False


def column_of_subject(
    registry: RegistryConfig, form: Form, subject: str, mode: Mode = "FAILFAST", message: str | None = None
) -> RegistryColumn:
    """Return the column with the type of the newest schema of a subject, in Spark's types.

    message: the full name of the Protobuf message; None: the first of that schema.

    Raises CorruptDataError for a schema of another form.  Raises OptionError for a schema that Spark cannot hold, and
    for a missing subject or message.
    """
    _, schema = registry_of(registry).latest(subject)
    if schema.kind != form.upper():
        raise CorruptDataError(f"the schema of {subject!r} is of the type {schema.kind}, not {form.upper()}")
    if form == "avro":
        kind, names = AvroValues(schema).kind, record_names(schema)
    else:
        values = ProtobufValues(ProtobufSchema(schema), message)
        kind, names = values.kind, (values.full_name,)
    return RegistryColumn(registry, form, pa.struct(list(spark_schema(pa.schema(list(kind))))), mode, names)


def _decoder(
    schema: RegisteredSchema, form: Form, names: tuple[str, ...], wanted: tuple[str, ...]
) -> AvroValues | ProtobufValues:
    """Return what decodes the wanted fields."""
    if form == "protobuf":
        return ProtobufValues(messages_of(schema), names[0] if names else None, wanted)
    if names and (own := record_names(schema)[:1]) and own[0] not in names:
        # Fields match by name, so a record of another name would become a row of nulls.
        raise CorruptDataError(f"its record is called {own[0]}")
    return AvroValues(schema, wanted)
