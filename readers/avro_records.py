"""The records of Avro as Arrow, in the types that Spark's own reader gives them (SchemaConverters).

The library decodes by a schema that is not quite the writer's, but means the same bytes: a union of
several types is one of records with a field each, a map is an array of its entries, and logical types
are what they are stored as.  So Arrow gets numbers for times, knows which type of a union it has, and
no value is lost on the way.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from struct import error as StructError  # noqa: N812 - a class
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from tidegate.errors import CorruptDataError, OptionError, TidegateError
from tidegate.readers.avro_container import AvroBlock

__all__ = ["AvroRecords"]

BATCH_BYTES = 1 << 20  # of encoded records: decoded they may be some ten times as much
MOST_ROWS = 16_384
NEVER_THERE = 2**31 - 1  # bytes of a value that no block holds
MOST_DIGITS = 38  # of a Spark decimal

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


class _Typed(NamedTuple):
    """What the library decodes by, and what Arrow makes of it."""

    schema: Any
    kind: pa.DataType


class AvroRecords:
    """Makes Arrow of records of one writer's schema.

    kind: of a record with all its fields, a struct.

    Raises CorruptDataError for what is no schema of records, OptionError, which names the column, for a
    type that Spark cannot hold.
    """

    def __init__(self, schema: Any) -> None:
        try:
            whole = _Conversion().of(schema, "", "")
            self._writer = fastavro.parse_schema(whole.schema)
        except TidegateError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError, SchemaParseException):
            raise CorruptDataError("its schema is none of Avro") from None
        if not pa.types.is_struct(whole.kind):
            raise CorruptDataError(f"it holds values of the type {whole.kind}, not records")
        self.kind: pa.StructType = whole.kind
        self._schema = whole.schema

    def batches(self, blocks: Iterable[AvroBlock], names: Collection[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the records of blocks, in order, with these of their fields; each batch with its first block's start.

        A batch holds at most MOST_ROWS rows, and about what BATCH_BYTES encode, but for a single larger row.
        Raises CorruptDataError, which says at which byte, for a block that the schema does not fit.
        """
        kind = pa.struct([field for field in self.kind if field.name in names])
        reader = None if len(kind) == len(self.kind) else self._projected(names)
        rows: list[Any] = []
        first = size = 0
        for block in blocks:
            stream = io.BytesIO(block.data)
            begun = 0
            for _ in range(block.rows):
                first = first if rows else block.start
                rows.append(self._row(block, stream, reader))
                if len(rows) == MOST_ROWS or size + stream.tell() - begun >= BATCH_BYTES:
                    yield first, _batch(rows, kind, block)
                    rows, size, begun = [], 0, stream.tell()
            if stream.tell() != len(block.data):
                raise CorruptDataError(f"the block at byte {block.start} holds more than its {block.rows} records")
            size += stream.tell() - begun
        if rows:
            yield first, _batch(rows, kind, block)

    def _row(self, block: AvroBlock, stream: io.BytesIO, reader: Any) -> Any:
        try:
            return fastavro.schemaless_reader(stream, self._writer, reader)
        except (ValueError, TypeError, LookupError, EOFError, ArithmeticError, StructError):
            # The library's own sentence may show values.
            raise CorruptDataError(f"its schema does not fit the block at byte {block.start}") from None

    def _projected(self, names: Collection[str]) -> Any:
        if not isinstance(self._schema, dict):
            return None
        fields = [field for field in self._schema["fields"] if field["name"] in names]
        return fastavro.parse_schema({**self._schema, "fields": fields})


def _batch(rows: list[Any], kind: pa.StructType, last: AvroBlock) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_struct_array(pa.array(rows, kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise CorruptDataError(f"a value before byte {last.end} is none of its type") from None


class _Conversion:
    """Makes of a writer's schema what the library decodes by; every named type gets a name of its own."""

    def __init__(self) -> None:
        self._defined: dict[str, Mapping[str, Any]] = {}
        self._within: list[str] = []
        self._names = (f"type{number}" for number in itertools.count())

    def of(self, schema: Any, namespace: str, path: str) -> _Typed:
        """Convert a schema.

        namespace: of names without one.  path: the column, for errors.
        """
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        if isinstance(schema, str):
            name = _full_name(schema, namespace)
            name = name if name in self._defined else schema
            known = _PRIMITIVE.get(schema)
            return self._named(self._defined[name], name, path) if known is None else _Typed(schema, known)
        kind = schema["type"]
        if kind in _NAMED:
            name = _full_name(schema["name"], schema.get("namespace", namespace))
            self._defined[name] = schema
            return self._named(schema, name, path)
        if kind in _COLLECTIONS:
            return self._collection(schema, namespace, path)
        if kind == "bytes" and (digits := _digits(schema, path)):
            return _Typed({**digits, "type": kind}, _decimal(digits))
        made = self.of(kind, namespace, path)
        return made._replace(kind=_LOGICAL.get(f"{kind} {schema.get('logicalType')}", made.kind))

    def _collection(self, schema: Mapping[str, Any], namespace: str, path: str) -> _Typed:
        if schema["type"] == "array":
            items = self.of(schema["items"], namespace, f"{path}.element")
            stored = items.schema
            if _takes_no_bytes(stored):
                # A few bytes could claim any number of them: only arrays that are empty are read.
                stored = {"type": "fixed", "name": next(self._names), "size": NEVER_THERE}
            return _Typed({"type": "array", "items": stored}, pa.list_(items.kind))
        values = self.of(schema["values"], namespace, f"{path}.value")
        entry = self._record([("key", _Typed("string", pa.string())), ("value", values)])
        return _Typed({"type": "array", "items": entry.schema}, pa.map_(pa.string(), values.kind))

    def _named(self, schema: Mapping[str, Any], name: str, path: str) -> _Typed:
        if schema["type"] == "enum":
            made = {"type": "enum", "name": next(self._names), "symbols": schema["symbols"]}
            return _Typed(made, pa.string())
        if schema["type"] == "fixed":
            made = {"type": "fixed", "name": next(self._names), "size": schema["size"]}
            digits = _digits(schema, path)
            return _Typed({**made, **digits}, _decimal(digits)) if digits else _Typed(made, pa.binary(schema["size"]))
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
        made = [{"name": name, "type": each.schema} for name, each in fields]
        kind = pa.struct([(name, each.kind) for name, each in fields])
        return _Typed({"type": "record", "name": next(self._names), "fields": made}, kind)

    def _union(self, branches: Sequence[Any], namespace: str, path: str) -> _Typed:
        types = [self.of(branch, namespace, path) for branch in branches]
        found = [each for each in types if not pa.types.is_null(each.kind)]
        stored = [each.schema for each in types]
        if len(found) < 2:
            return _Typed(stored, found[0].kind if found else pa.null())
        if all(isinstance(each.schema, str) for each in found):
            wider = _WIDER.get(frozenset(each.schema for each in found))
            if wider is not None and len(found) == 2:
                return _Typed(stored, wider)
        members = [self._record([(f"member{index}", each)]) for index, each in enumerate(found)]
        kind = pa.struct([field for each in members for field in each.kind])
        schemas = iter([each.schema for each in members])
        return _Typed([each.schema if pa.types.is_null(each.kind) else next(schemas) for each in types], kind)


def _takes_no_bytes(schema: Any) -> bool:
    if isinstance(schema, dict):
        fields = [field["type"] for field in schema.get("fields", ())]
        return schema.get("size") == 0 or (schema["type"] == "record" and all(map(_takes_no_bytes, fields)))
    return bool(schema == "null")


def _full_name(name: str, namespace: str | None) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _digits(schema: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return what makes a decimal of bytes; None where it is none, also because it cannot be (LogicalTypes.Decimal)."""
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not 0 <= scale <= precision or precision < 1:
        return None
    if "size" in schema and 10**precision > 2 ** (8 * schema["size"] - 1):
        return None
    if precision > MOST_DIGITS:
        raise OptionError(f"the column {path!r} is a decimal of {precision} digits; Spark's have {MOST_DIGITS} at most")
    return {"logicalType": "decimal", "precision": precision, "scale": scale}


def _decimal(digits: Mapping[str, Any]) -> pa.DataType:
    return pa.decimal128(digits["precision"], digits["scale"])
