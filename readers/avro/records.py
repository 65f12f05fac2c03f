"""Decodes values of Avro to Arrow, in the types of Spark's own reader: values one by one, or the records of blocks."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from struct import error as StructError  # noqa: N812 - a class
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from fastavro.read import SchemaResolutionError

from tidegate.errors import CorruptDataError, OutOfMemoryError, TidegateError
from tidegate.readers.arrow.conform import NO_VALUES, by_halves
from tidegate.readers.avro.container import AvroBlock
from tidegate.readers.avro.resolution import AvroSchema, Resolution, parsed
from tidegate.readers.avro.types import NO_SCHEMA

if TYPE_CHECKING:
    from tidegate.readers.avro.flat import FlatRecords

ENOUGH = 256  # values that are worth the first call of a compiled loop, which loads its machine code
BATCH_BYTES = 1 << 20  # the size of a batch as encoded records
MOST_ROWS = 16_384
_MISFITS = (
    *(ValueError, TypeError, LookupError, EOFError, ArithmeticError, RecursionError),
    *(StructError, SchemaResolutionError),
)
"""The errors of the library; its own messages may show values."""


class AvroValues:
    """Decodes what was written by one schema as another, by the rules of Avro.

    names: the wanted columns of the reader's rows; what the others hold is never converted.  None: all that Spark can
        hold.
    kind: the type of a value.  It is the reader's, but times may have the unit in which they were written.

    Raises CorruptDataError for a writer's schema that does not match the reader's or is not a schema.  Raises
    OptionError if Spark cannot hold values of the reader's schema.
    """

    def __init__(self, writer: AvroSchema, reader: AvroSchema, names: Collection[str] | None = None) -> None:
        wanted = reader.readable if names is None else names
        for name in wanted:
            if isinstance(problem := reader.columns.get(name), TidegateError):
                raise problem
        try:
            resolved = Resolution(writer, reader, (), wanted).of(writer.root, reader.root, "")
            self._writer = parsed(_whole(resolved.writer))
            # Without a reader's schema fastavro takes three quarters of the time.
            self._reader = None if resolved.reader == resolved.writer else parsed(_whole(resolved.reader))
        except NO_SCHEMA:
            raise CorruptDataError("its schema is not a valid Avro schema") from None
        self.kind = resolved.kind
        self._resolved = resolved

    @cached_property
    def _flat(self) -> FlatRecords | None:
        from tidegate.readers.avro.flat import FlatRecords

        return FlatRecords.of(*self._resolved)

    def read(self, stream: io.BytesIO) -> Any:
        """Return the next value of a stream, as ``array`` takes it.  Raises what fastavro raises."""
        return fastavro.schemaless_reader(stream, self._writer, self._reader)[_IT]  # type: ignore[call-overload, index]

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values that ``read`` has returned.  Raises one of Arrow's errors if one does not fit its type."""
        return pa.array(values, self.kind)

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """Return values, each from its own bytes, and which of these bytes are one; what is not is null."""
        if len(values) >= ENOUGH and self._flat is not None and (found := self._flat.decode(values)) is not None:
            return found, np.ones(len(values), np.bool_)
        rows: list[Any] = [None] * len(values)
        good = np.zeros(len(values), np.bool_)
        stream, end = io.BytesIO(b"".join(values)), 0
        for place, value in enumerate(values):
            end += len(value)
            try:
                row = self.read(stream)
            except _MISFITS:
                row = None
            else:
                good[place] = stream.tell() == end  # or it is cut off, and goes on in the next value
            if good[place]:
                rows[place] = row
            else:
                stream.seek(end)
        return by_halves(self.array, rows, good, self.kind)


_IT = "it"


def _whole(schema: Any) -> dict[str, Any]:
    """Return the schema of a record with a value as its only field, which has the bytes of the value."""
    return {"type": "record", "name": "whole", "fields": [{"name": _IT, "type": schema}]}


class AvroRecords:
    """Converts records of one writer's schema to Arrow.

    A field whose type Spark cannot hold, or which is malformed, is an error only for those who ask for it.

    fields: the fields of a record in the types of Spark; those that Spark cannot hold are of the type null.

    Raises CorruptDataError for a schema that is not one of records.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = AvroSchema(schema)
        self._decoders: dict[frozenset[str], AvroValues] = {}
        try:
            columns = self._schema.columns.items()
            self.fields = [
                pa.field(name, pa.null() if isinstance(kind, TidegateError) else kind) for name, kind in columns
            ]
            self._is_record = self._schema.row is not None
        except NO_SCHEMA:
            raise CorruptDataError("its schema is not a valid Avro schema") from None
        if not self._is_record:
            kind = self._schema.kind
            if not pa.types.is_struct(kind):
                raise CorruptDataError(f"it holds values of the type {kind}, not records")
            self.fields = list(kind)

    @property
    def kind(self) -> pa.StructType:
        """The type of a record with all its fields.

        Raises OptionError, which names the field, for a type that Spark cannot hold, and CorruptDataError for what is
        no type.
        """
        for kind in self._schema.columns.values():
            if isinstance(kind, TidegateError):
                raise kind
        return pa.struct(self.fields)

    def batches(self, blocks: Iterable[AvroBlock], names: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the records of blocks, in order, with these of their fields.

        A batch holds at most MOST_ROWS rows and about BATCH_BYTES encoded, unless a single row is larger.

        Raises CorruptDataError, which names the byte, for a block that the schema does not fit.  Also raises
        OutOfMemoryError.
        """
        key = frozenset(names)
        values = self._decoders.get(key)
        if values is None:
            values = self._decoders[key] = AvroValues(self._schema, self._schema, names if self._is_record else None)
        rows: list[Any] = []
        size = 0
        for block in blocks:
            for row, length in _rows(block, values):
                rows.append(row)
                size += length
                if len(rows) == MOST_ROWS or size >= BATCH_BYTES:
                    yield self._batch(rows, values, block, key)
                    rows, size = [], 0
        if rows:
            yield self._batch(rows, values, block, key)

    def _batch(
        self, rows: Sequence[Any], values: AvroValues, last: AvroBlock, names: Collection[str]
    ) -> pa.RecordBatch:
        try:
            batch = pa.RecordBatch.from_struct_array(values.array(rows))
        except NO_VALUES:
            raise CorruptDataError(f"a value before byte {last.end} does not fit its type") from None
        except MemoryError:
            raise _out_of_memory(last) from None
        return batch if self._is_record else batch.select([name for name in batch.schema.names if name in names])


def _rows(block: AvroBlock, values: AvroValues) -> Iterator[tuple[Any, int]]:
    """Yield each row, and the number of its encoded bytes."""
    stream = io.BytesIO(block.data)
    end = 0
    for _ in range(block.rows):
        begin = end
        try:
            row = values.read(stream)
        except _MISFITS:
            raise CorruptDataError(f"its schema does not fit the block at byte {block.start}") from None
        except MemoryError:
            raise _out_of_memory(block) from None
        end = stream.tell()
        yield row, end - begin
    if end != len(block.data):
        raise CorruptDataError(f"the block at byte {block.start} holds more than its {block.rows} records")


def _out_of_memory(block: AvroBlock) -> OutOfMemoryError:
    return OutOfMemoryError(f"the block at byte {block.start} {OutOfMemoryError()}")
