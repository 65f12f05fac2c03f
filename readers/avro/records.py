"""Decodes the records of Avro to Arrow, in the types of Spark's own reader (SchemaConverters).

The library decodes with a schema that differs from the writer's, but describes the same bytes; see ``conversion.py``.
So Arrow gets numbers for times, knows the type of a value in a union, and no value is lost.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from struct import error as StructError  # noqa: N812 - a class
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from tidegate.errors import CorruptDataError, OutOfMemoryError, TidegateError
from tidegate.readers.arrow.conform import retyped, with_leaves
from tidegate.readers.avro.container import AvroBlock
from tidegate.readers.avro.conversion import NO_SCHEMA, RECORDS, Conversion, RecordField, Typed, fields_schema, places
from tidegate.readers.avro.skipping import NamedTypes, Scoped, named_types, skip
from tidegate.readers.decompression import SizeLimit, about

BATCH_BYTES = 1 << 20  # the size of a batch as encoded records
BATCH_MEMORY = 64 << 20  # the size of a batch as decoded records, without the contents of texts and lists
MOST_ROWS = 16_384

# The most bytes of a value in CPython and in Arrow, whose buffers double; measured.
_VALUE_BYTES = 160
_RECORD_BYTES = 200
_COPIES = 3  # of bytes of a fixed size: one of Python, two of Arrow


class _Decoder(NamedTuple):
    """The decoder of rows with some of their fields.

    kind, raw_kind: the type of a row, and its type before texts are distinguished from bytes.
    row_bytes: the estimated memory of a row, without the contents of its texts and lists.
    """

    read: Callable[[io.BytesIO], Any]
    kind: pa.StructType
    raw_kind: pa.StructType
    row_bytes: int


class AvroRecords:
    """Converts records of one writer's schema to Arrow.

    A field whose type Spark cannot hold, or which is malformed, is an error only for those who ask for it: it is
    skipped, and never converted.

    bound: the bound for a row's memory, without the contents of its texts and lists.
    first: fields that are converted before others, which may have more types than are converted.
    fields: the fields of a record in the types of Spark; those that Spark cannot hold are of the type null.

    Raises CorruptDataError for a schema that is not one of records.
    """

    def __init__(self, schema: Any, bound: SizeLimit, first: Collection[str] = ()) -> None:
        self._bound = bound
        self._decoders: dict[frozenset[str], _Decoder] = {}
        self._whole: Typed | None = None  # the type of a record that is in a union
        self._places: list[RecordField] = []
        try:
            self._named = named_types(schema)
            if isinstance(schema, dict) and schema["type"] in RECORDS:
                self._places = places(schema, self._named, {name.lower() for name in first})
                kinds = [pa.null() if isinstance(typed, TidegateError) else typed.kind for _, _, typed in self._places]
                self.fields = [pa.field(place.name, kind) for place, kind in zip(self._places, kinds, strict=True)]
                self.fields = [field for field in self.fields if field.name]
                return
            self._whole = whole = Conversion(self._named).of(schema, "", "")
            fastavro.parse_schema(whole.schema)
        except NO_SCHEMA:
            raise CorruptDataError("its schema is no Avro schema") from None
        if not pa.types.is_struct(whole.kind):
            raise CorruptDataError(f"it holds values of the type {whole.kind}, not records")
        self.fields = list(whole.kind)

    @property
    def kind(self) -> pa.StructType:
        """The type of a record with all its fields; raises what ``kind_of`` raises."""
        return self.kind_of([field.name for field in self.fields])

    def kind_of(self, names: Collection[str]) -> pa.StructType:
        """Return the type of a record with these of its fields.

        Raises OptionError, which names the field, for a type that Spark cannot hold, and CorruptDataError for one that
        is none.
        """
        for place in self._places:
            if place.name in names and isinstance(place.typed, TidegateError):
                raise place.typed
        return pa.struct([field for field in self.fields if field.name in names])

    def batches(self, blocks: Iterable[AvroBlock], names: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the records of blocks, in order, with these of their fields.

        A batch holds at most MOST_ROWS rows, about BATCH_BYTES encoded and BATCH_MEMORY decoded, unless a single row is
        larger.

        Raises CorruptDataError, which names the byte, for a block that the schema does not fit, or with a row beyond
        the bound.  Also raises OutOfMemoryError.
        """
        key = frozenset(names)
        try:
            decoder = self._decoders.get(key) or self._decoders.setdefault(key, self._decoder(names))
        except NO_SCHEMA:
            raise CorruptDataError("its schema is no Avro schema") from None
        most_rows = max(min(MOST_ROWS, BATCH_MEMORY // decoder.row_bytes), 1)
        rows: list[Any] = []
        size = rows_without_bytes = 0
        for block in blocks:
            if not block.data:
                rows_without_bytes += block.rows
                self._require(
                    rows_without_bytes * decoder.row_bytes, f"what comes up to the block at byte {block.start}"
                )
            self._require(decoder.row_bytes, f"a row of the block at byte {block.start}")
            for row, length in _rows(block, decoder):
                rows.append(row)
                size += length
                if len(rows) == most_rows or size >= BATCH_BYTES:
                    yield _batch(rows, decoder, block)
                    rows, size = [], 0
        if rows:
            yield _batch(rows, decoder, block)

    def _decoder(self, names: Collection[str]) -> _Decoder:
        kind = self.kind_of(names)
        if self._whole is not None:
            return _Decoder(
                _reading(self._whole.schema, None),
                kind,
                with_leaves(kind, _text_as_bytes),
                _row_bytes(self._whole.kind),
            )
        parts: list[Callable[[io.BytesIO], Any]] = []
        for is_foreign, group in itertools.groupby(self._places, lambda place: isinstance(place.typed, TidegateError)):
            members = [*group]
            if is_foreign:
                parts += [partial(_skipped, place.scoped, self._named) for place in members]
                continue
            typed = [(place.name, place.typed) for place in members if isinstance(place.typed, Typed)]
            # A few bytes could claim any number of items, and skipping them would never end.
            built = [(name, of) for name, of in typed if name in names or _hides_an_end(of.kind)]
            parts.append(_reading(fields_schema(typed), fields_schema(built) if len(built) < len(typed) else None))
        read = parts[0] if len(parts) == 1 else partial(_joined, parts)
        return _Decoder(read, kind, with_leaves(kind, _text_as_bytes), _row_bytes(kind))

    def _require(self, memory: int, subject: str) -> None:
        if memory > self._bound.bytes:
            with about(subject):
                raise self._bound.exceeded("decoded")


def _rows(block: AvroBlock, decoder: _Decoder) -> Iterator[tuple[Any, int]]:
    """Yield each row, and the number of its encoded bytes."""
    stream = io.BytesIO(block.data)
    end = 0
    for _ in range(block.rows):
        begin = end
        try:
            row = decoder.read(stream)
        except _MISFITS:
            raise _misfit(block) from None
        except MemoryError:
            raise _out_of_memory(block) from None
        end = stream.tell()
        yield row, end - begin
    if end != len(block.data):
        raise CorruptDataError(f"the block at byte {block.start} holds more than its {block.rows} records")


_MISFITS = (ValueError, TypeError, LookupError, EOFError, ArithmeticError, RecursionError, StructError)
"""The errors of the library; its own messages may show values."""


def _misfit(block: AvroBlock) -> CorruptDataError:
    return CorruptDataError(f"its schema does not fit the block at byte {block.start}")


def _out_of_memory(block: AvroBlock) -> OutOfMemoryError:
    return OutOfMemoryError(f"the block at byte {block.start} {OutOfMemoryError()}")


def _batch(rows: list[Any], decoder: _Decoder, last: AvroBlock) -> pa.RecordBatch:
    try:
        table = pa.array(rows, decoder.raw_kind)
        if decoder.raw_kind != decoder.kind:
            table = retyped(table, decoder.kind)
            table.validate(full=True)  # texts are UTF-8
        return pa.RecordBatch.from_struct_array(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        raise CorruptDataError(f"a value before byte {last.end} is none of its type") from None
    except MemoryError:
        raise _out_of_memory(last) from None


def _reading(writer: Any, reader: Any) -> Callable[[io.BytesIO], Any]:
    writer = fastavro.parse_schema(writer)
    reader = None if reader is None else fastavro.parse_schema(reader)
    return lambda stream: fastavro.schemaless_reader(stream, writer, reader)


def _skipped(scoped: Scoped, named: NamedTypes, stream: io.BytesIO) -> dict[str, Any]:
    skip(scoped, named, stream)
    return {}


def _joined(parts: Sequence[Callable[[io.BytesIO], Any]], stream: io.BytesIO) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for part in parts:
        row.update(part(stream))
    return row


def _hides_an_end(kind: pa.DataType) -> bool:
    """Return whether the library would skip missing items of a list: items whose bytes have no length of their own."""
    if pa.types.is_list(kind):
        return _is_fixed(kind.value_type) or _hides_an_end(kind.value_type)
    if pa.types.is_map(kind):
        return _hides_an_end(kind.item_type)
    return pa.types.is_struct(kind) and any(_hides_an_end(field.type) for field in kind)


def _is_fixed(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_is_fixed(field.type) for field in kind)
    is_number = pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
    return bool(is_number or pa.types.is_null(kind) or pa.types.is_fixed_size_binary(kind))


def _row_bytes(kind: pa.DataType) -> int:
    """Estimate the memory of a value in bytes, without the contents of its texts and lists."""
    if pa.types.is_struct(kind):
        return _RECORD_BYTES + sum(_row_bytes(field.type) for field in kind)
    return _VALUE_BYTES + (_COPIES * kind.byte_width if pa.types.is_fixed_size_binary(kind) else 0)


def _text_as_bytes(leaf: pa.DataType) -> pa.DataType:
    return pa.binary() if pa.types.is_string(leaf) else leaf
