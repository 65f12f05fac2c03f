"""Decodes the records of Avro to Arrow, in the types of Spark's own reader (SchemaConverters).

The library decodes with a schema that differs from the writer's, but describes the same bytes.  There, a union of
several types is a union of records with one field each.  A map is an array of its entries, and logical types are their
stored types.  So Arrow gets numbers for times, knows the type of a value in a union, and no value is lost.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from struct import error as StructError  # noqa: N812 - a class
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException

from tidegate.errors import CorruptDataError, OptionError, OutOfMemoryError, TidegateError
from tidegate.readers.arrow.conform import retyped
from tidegate.readers.decompression import Bound, about
from tidegate.readers.formats.avro.container import AvroBlock
from tidegate.readers.formats.avro.memory import (
    Cost,
    CountedBytes,
    TooManyPartsError,
    list_cost,
    plain_cost,
    record_cost,
    union_cost,
)

__all__ = ["AvroRecords"]

BATCH_BYTES = 1 << 20  # the size of a batch as encoded records
BATCH_MEMORY = 64 << 20  # the size of a batch as decoded records, without the contents of texts
MOST_ROWS = 16_384
MOST_TYPES = 100_000  # a schema names a type repeatedly, so a short schema may have many types
NEVER_THERE = 2**31 - 1  # a size in bytes for a value that no block contains
MOST_DIGITS = 38  # the maximum precision of a Spark decimal
MOST_DECIMAL_BYTES = 64  # a number of MOST_DIGITS needs less, without bytes that only repeat the sign
_OUR_DECIMAL = "tidegate-decimal"  # a logical type that fastavro does not know

_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "int date": pa.date32(),
    "long timestamp-millis": pa.timestamp("ms", "UTC"),
    "long timestamp-micros": pa.timestamp("us", "UTC"),
    "long timestamp-nanos": pa.timestamp("ns", "UTC"),
    "long local-timestamp-millis": pa.timestamp("ms"),
    "long local-timestamp-micros": pa.timestamp("us"),
    "long local-timestamp-nanos": pa.timestamp("ns"),
}
_NAMED = ("record", "error", "enum", "fixed")
_COLLECTIONS = ("array", "map")
_WIDER = {frozenset(["int", "long"]): pa.int64(), frozenset(["float", "double"]): pa.float64()}


def _read_decimal(data: bytes, schema: Any, _: Any = None) -> Any:
    """Return a decimal as the library does; raises ValueError for one of megabytes, which would take hours."""
    rest, last = data[:-MOST_DECIMAL_BYTES], data[-MOST_DECIMAL_BYTES:]
    if rest.strip(b"\xff" if last >= b"\x80" else b"\x00"):
        raise ValueError
    return LOGICAL_READERS["bytes-decimal"](last, schema, schema)


LOGICAL_READERS.update(dict.fromkeys([f"bytes-{_OUR_DECIMAL}", f"fixed-{_OUR_DECIMAL}"], _read_decimal))


class _Typed(NamedTuple):
    """A type, or a field of a record: its schema, its Arrow type, and the memory of a value."""

    schema: Any
    kind: pa.DataType
    cost: Cost
    fields: Sequence[Cost] = ()


class _Decoder(NamedTuple):
    """The decoder of rows with some of their fields.

    reader: the schema with these fields; None: with all.
    kind, raw_kind: the type of a row, and its type before texts are distinguished from bytes.
    cost: the cost of a row.
    """

    reader: Any
    kind: pa.StructType
    raw_kind: pa.StructType
    cost: Cost


class AvroRecords:
    """Converts records of one writer's schema to Arrow.

    kind: the type of a record with all its fields, a struct.
    bound: the bound for a row's memory, without the contents of its texts.

    Raises CorruptDataError for a schema that is not one of records.  Raises OptionError, which names the column, for a
    type that Spark cannot hold.
    """

    def __init__(self, schema: Any, bound: Bound) -> None:
        try:
            whole = _Conversion().of(schema, "", "")
            self._writer = fastavro.parse_schema(whole.schema)
        except TidegateError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError, SchemaParseException):
            raise CorruptDataError("its schema is no Avro schema") from None
        if not pa.types.is_struct(whole.kind):
            raise CorruptDataError(f"it holds values of the type {whole.kind}, not records")
        self.kind: pa.StructType = whole.kind
        self._schema = whole.schema
        self._cost, self._fields = whole.cost, whole.fields
        self._bound = bound

    def batches(self, blocks: Iterable[AvroBlock], names: Collection[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the records of blocks, in order, with these of their fields; each batch with its first block's start.

        A batch holds at most MOST_ROWS rows, about BATCH_BYTES encoded and BATCH_MEMORY decoded, unless a single row is
        larger.

        Raises CorruptDataError, which names the byte, for a block that the schema does not fit, or with a row beyond
        the bound.  Also raises OutOfMemoryError.
        """
        decoder = self._decoder(names)
        cost = decoder.cost
        most_rows = max(min(MOST_ROWS, BATCH_MEMORY // cost.memory), 1)
        most_bytes = min(BATCH_BYTES, BATCH_MEMORY // max(cost.item_memory, 1))
        rows: list[Any] = []
        first = size = rows_without_bytes = 0
        for block in blocks:
            if not self._cost.parts:
                rows_without_bytes += block.rows
                self._require(rows_without_bytes * cost.memory, f"what comes up to the block at byte {block.start}")
            self._require(cost.memory, f"a row of the block at byte {block.start}")
            for row, length in self._rows(block, decoder):
                first = first if rows else block.start
                rows.append(row)
                size += length
                if len(rows) == most_rows or size >= most_bytes:
                    yield first, _batch(rows, decoder, block)
                    rows, size = [], 0
        if rows:
            yield first, _batch(rows, decoder, block)

    def _decoder(self, names: Collection[str]) -> _Decoder:
        kind = pa.struct([field for field in self.kind if field.name in names])
        # A few bytes could claim any number of items, and skipping them would never end.
        built = [place for place, field in enumerate(self.kind) if field.name in names or _hides_an_end(field.type)]
        reader = None if len(built) == len(self.kind) else self._projected({self.kind[place].name for place in built})
        fields = [self._fields[place] for place in built] if isinstance(self._schema, dict) else [self._cost]
        return _Decoder(reader, kind, _texts_as_bytes(kind), record_cost(fields))

    def _rows(self, block: AvroBlock, decoder: _Decoder) -> Iterator[tuple[Any, int]]:
        """Yield each row, and the number of its encoded bytes.

        The library gets only as many bytes at a time as certainly become rows within the bound; a row that is cut is
        decoded slowly.
        """
        size = len(block.data)
        shown = self._bound.bytes // decoder.cost.item_memory if decoder.cost.item_memory else size
        start = begun = 0
        stream = io.BytesIO(block.data[:shown])
        for _ in range(block.rows):
            try:
                row = fastavro.schemaless_reader(stream, self._writer, decoder.reader)
                end = start + stream.tell()
            except _MISFITS:
                if start + shown >= size:
                    raise _misfit(block) from None
                end = start + shown
            except MemoryError:
                raise _out_of_memory(block) from None
            if end == start + shown < size:  # cut, perhaps: the library skips missing bytes without an error
                row, start = self._counted_row(block, begun, decoder)
                end = start
                stream = io.BytesIO(block.data[start : start + shown])
            yield row, end - begun
            begun = end
        if begun != size:
            raise CorruptDataError(f"the block at byte {block.start} holds more than its {block.rows} records")

    def _counted_row(self, block: AvroBlock, position: int, decoder: _Decoder) -> tuple[Any, int]:
        """Return the row at a position, and its end."""
        stream = CountedBytes(block.data, position, self._bound.bytes // decoder.cost.item_memory)
        try:
            return fastavro.schemaless_reader(stream, self._writer, decoder.reader), stream.position  # type: ignore[arg-type]
        except TooManyPartsError:
            with about(f"a row of the block at byte {block.start}"):
                raise self._bound.exceeded("decoded") from None
        except _MISFITS:
            raise _misfit(block) from None
        except MemoryError:
            raise _out_of_memory(block) from None

    def _require(self, memory: int, subject: str) -> None:
        if memory > self._bound.bytes:
            with about(subject):
                raise self._bound.exceeded("decoded")

    def _projected(self, names: Collection[str]) -> Any:
        if not isinstance(self._schema, dict):
            return None
        fields = [field for field in self._schema["fields"] if field["name"] in names]
        return fastavro.parse_schema({**self._schema, "fields": fields})


_MISFITS = (ValueError, TypeError, LookupError, EOFError, ArithmeticError, StructError)
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
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise CorruptDataError(f"a value before byte {last.end} is none of its type") from None
    except MemoryError:
        raise _out_of_memory(last) from None


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


def _texts_as_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _texts_as_bytes(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.binary(), _texts_as_bytes(kind.item_type))
    return pa.list_(_texts_as_bytes(kind.value_type)) if pa.types.is_list(kind) else kind


class _Conversion:
    """Converts a writer's schema to the one that the library decodes by; every named type gets a name of its own."""

    def __init__(self) -> None:
        self._defined: dict[str, Mapping[str, Any]] = {}
        self._within: list[str] = []
        self._names = (f"type{number}" for number in itertools.count())
        self._count = itertools.count()

    def of(self, schema: Any, namespace: str, path: str) -> _Typed:
        """Convert a schema.

        namespace: of names without one.  path: the column, for errors.
        """
        if next(self._count) == MOST_TYPES:
            raise CorruptDataError(f"its schema has more than {MOST_TYPES} types")
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        if isinstance(schema, str):
            return self._referred(schema, namespace, path)
        kind = schema["type"]
        if kind in _NAMED:
            name = _full_name(schema["name"], schema.get("namespace", namespace))
            self._defined[name] = schema
            return self._named(schema, name, path)
        if kind in _COLLECTIONS:
            return self._collection(schema, namespace, path)
        if kind == "bytes" and (digits := _digits(schema, path)):
            return _plain({**digits, "type": kind}, _decimal(digits))
        converted = self.of(kind, namespace, path)
        return converted._replace(kind=_LOGICAL.get(f"{kind} {schema.get('logicalType')}", converted.kind))

    def _referred(self, schema: str, namespace: str, path: str) -> _Typed:
        primitive = _PRIMITIVE.get(schema)
        if primitive is None:
            name = _full_name(schema, namespace)
            name = name if name in self._defined else schema
            return self._named(self._defined[name], name, path)
        # Arrow checks a whole column of bytes at once; a text in Python may be four times as large.
        return _plain("bytes" if schema == "string" else schema, primitive)

    def _collection(self, schema: Mapping[str, Any], namespace: str, path: str) -> _Typed:
        if schema["type"] == "array":
            items = self.of(schema["items"], namespace, f"{path}.element")
            stored = items.schema
            if not items.cost.parts:
                # A few bytes could claim any number of items: only empty arrays are read.
                stored = {"type": "fixed", "name": next(self._names), "size": NEVER_THERE}
            return _Typed({"type": "array", "items": stored}, pa.list_(items.kind), list_cost(items.cost))
        values = self.of(schema["values"], namespace, f"{path}.value")
        entry = self._record([("key", _plain("bytes", pa.string())), ("value", values)])
        kind = pa.map_(pa.string(), values.kind)
        return _Typed({"type": "array", "items": entry.schema}, kind, list_cost(entry.cost))

    def _named(self, schema: Mapping[str, Any], name: str, path: str) -> _Typed:
        if schema["type"] == "enum":
            named_type = {"type": "enum", "name": next(self._names), "symbols": schema["symbols"]}
            return _plain(named_type, pa.string())
        if schema["type"] == "fixed":
            named_type = {"type": "fixed", "name": next(self._names), "size": schema["size"]}
            digits = _digits(schema, path)
            return (
                _plain({**named_type, **digits}, _decimal(digits))
                if digits
                else _plain(named_type, pa.binary(schema["size"]))
            )
        if name in self._within:
            raise OptionError(f"the column {path!r} is of the type {name}, which contains itself: Spark cannot hold it")
        self._within.append(name)
        namespace = name.rpartition(".")[0]
        fields = [
            (field["name"], self.of(field["type"], namespace, f"{path}.{field['name']}".lstrip(".")))
            for field in schema["fields"]
        ]
        self._within.pop()
        return self._record(fields)

    def _record(self, fields: Sequence[tuple[str, _Typed]]) -> _Typed:
        members = [{"name": name, "type": field.schema} for name, field in fields]
        kind = pa.struct([(name, field.kind) for name, field in fields])
        costs = [field.cost for _, field in fields]
        return _Typed({"type": "record", "name": next(self._names), "fields": members}, kind, record_cost(costs), costs)

    def _union(self, branches: Sequence[Any], namespace: str, path: str) -> _Typed:
        types = [self.of(branch, namespace, path) for branch in branches]
        values = [member for member in types if not pa.types.is_null(member.kind)]
        stored = [member.schema for member in types]
        costs = [member.cost for member in types]
        if len(values) < 2:
            return _Typed(stored, values[0].kind if values else pa.null(), union_cost(costs, is_record=False))
        if all(isinstance(member.schema, str) for member in values):
            wider = _WIDER.get(frozenset(member.schema for member in values))
            if wider is not None and len(values) == 2:
                return _Typed(stored, wider, union_cost(costs, is_record=False))
        members = [self._record([(f"member{index}", member)]) for index, member in enumerate(values)]
        kind = pa.struct([field for member in members for field in member.kind])
        schemas = iter([member.schema for member in members])
        union = [member.schema if pa.types.is_null(member.kind) else next(schemas) for member in types]
        return _Typed(union, kind, union_cost(costs, is_record=True))


def _plain(schema: Any, kind: pa.DataType) -> _Typed:
    return _Typed(schema, kind, plain_cost(kind))


def _full_name(name: str, namespace: str | None) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _digits(schema: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return the decoder of a decimal; None: the type is no decimal, or no valid one (LogicalTypes.Decimal)."""
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not 0 <= scale <= precision or precision < 1:
        return None
    if "size" in schema and 10**precision > 2 ** (8 * schema["size"] - 1):
        return None
    if precision > MOST_DIGITS:
        raise OptionError(f"the column {path!r} is a decimal of {precision} digits; Spark's have {MOST_DIGITS} at most")
    return {"logicalType": _OUR_DECIMAL, "precision": precision, "scale": scale}


def _decimal(digits: Mapping[str, Any]) -> pa.DataType:
    return pa.decimal128(digits["precision"], digits["scale"])
