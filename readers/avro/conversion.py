"""Converts a writer's Avro schema to the one that fastavro decodes by, and to the types of Spark's own reader.

The two describe the same bytes.  In the converted schema, a union of several types is a union of records with one field
each, a map is an array of its entries, and logical types are their stored types (Spark's SchemaConverters).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException

from tidegate.errors import CorruptDataError, OptionError, TidegateError
from tidegate.readers.arrow.conform import MOST_DIGITS
from tidegate.readers.avro.skipping import NamedTypes, Scoped, full_name

MOST_TYPES = 100_000  # a schema names a type repeatedly, so a short schema may have many types
NEVER_THERE = 2**31 - 1  # a size in bytes for a value that no block contains
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
RECORDS = ("record", "error")
_NAMED = (*RECORDS, "enum", "fixed")
_COLLECTIONS = ("array", "map")
_WIDER = {frozenset(["int", "long"]): pa.int64(), frozenset(["float", "double"]): pa.float64()}


def _read_decimal(data: bytes, schema: Any, _: Any = None) -> Any:
    """Return a decimal as the library does; raises ValueError for one of megabytes, which would take hours."""
    rest, last = data[:-MOST_DECIMAL_BYTES], data[-MOST_DECIMAL_BYTES:]
    if rest.strip(b"\xff" if last >= b"\x80" else b"\x00"):
        raise ValueError
    return LOGICAL_READERS["bytes-decimal"](last, schema, schema)


LOGICAL_READERS.update(dict.fromkeys([f"bytes-{_OUR_DECIMAL}", f"fixed-{_OUR_DECIMAL}"], _read_decimal))


class Typed(NamedTuple):
    """A type: its schema, and its Arrow type."""

    schema: Any
    kind: pa.DataType


class RecordField(NamedTuple):
    """A field of a record: its name, its type as the writer has it, and that type converted, or why it cannot be.

    The name is empty if no column can have it.
    """

    name: str
    scoped: Scoped
    typed: Typed | TidegateError


NO_SCHEMA = (LookupError, TypeError, AttributeError, ValueError, RecursionError, OverflowError, SchemaParseException)
"""What code raises that expects a schema and finds something else."""


def places(schema: Mapping[str, Any], named: NamedTypes, first: Collection[str]) -> list[RecordField]:
    """Return the fields of a record, in order; those named in ``first``, in small letters, are converted first."""
    name = full_name(schema["name"], schema.get("namespace"))
    namespace, conversion = name.rpartition(".")[0], Conversion(named, name)
    found: dict[int, RecordField] = {}
    for number, field in sorted(enumerate(schema["fields"]), key=lambda pair: pair[1]["name"].lower() not in first):
        own, scoped = field["name"], (field["type"], namespace)
        try:
            converted = conversion.of(*scoped, own)
            fastavro.parse_schema(fields_schema([(own, converted)]))
            typed: Typed | TidegateError = converted
        except TidegateError as problem:
            typed = problem
        except NO_SCHEMA:
            typed = CorruptDataError(f"the type of the field {own!r} is none of Avro")
        found[number] = RecordField(own if _is_unicode(own) else "", scoped, typed)
    return [found[number] for number in sorted(found)]


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def fields_schema(typed: Sequence[tuple[str, Typed]]) -> dict[str, Any]:
    """Return the schema of a record of these fields."""
    fields = [{"name": name, "type": of.schema} for name, of in typed]
    return {"type": "record", "name": "fields", "fields": fields}


class Conversion:
    """Converts a writer's schema to the one that the library decodes by; every named type gets a name of its own."""

    def __init__(self, named: NamedTypes, *within: str) -> None:
        self._defined = named
        self._within = [*within]
        self._names = (f"type{number}" for number in itertools.count())
        self._count = itertools.count()

    def of(self, schema: Any, namespace: str, path: str) -> Typed:
        """Convert a schema; the path is the column, for errors."""
        if next(self._count) >= MOST_TYPES:
            raise CorruptDataError(f"its schema has more than {MOST_TYPES} types")
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        if isinstance(schema, str):
            return self._referred(schema, namespace, path)
        kind = schema["type"]
        if kind in _NAMED:
            return self._named(schema, full_name(schema["name"], schema.get("namespace", namespace)), path)
        if kind in _COLLECTIONS:
            return self._collection(schema, namespace, path)
        if kind == "bytes" and (digits := _digits(schema, path)):
            return Typed({**digits, "type": kind}, _decimal(digits))
        converted = self.of(kind, namespace, path)
        return converted._replace(kind=_LOGICAL.get(f"{kind} {schema.get('logicalType')}", converted.kind))

    def _referred(self, schema: str, namespace: str, path: str) -> Typed:
        primitive = _PRIMITIVE.get(schema)
        if primitive is None:
            name = full_name(schema, namespace)
            name = name if name in self._defined else schema
            return self._named(self._defined[name][0], name, path)
        # Arrow checks a whole column of bytes at once; a text in Python may be four times as large.
        return Typed("bytes" if schema == "string" else schema, primitive)

    def _collection(self, schema: Mapping[str, Any], namespace: str, path: str) -> Typed:
        if schema["type"] == "array":
            items = self.of(schema["items"], namespace, f"{path}.element")
            stored = items.schema
            if not isinstance(items.schema, list) and _has_no_bytes(items.kind):  # a union has its index
                # A few bytes could claim any number of items: only empty arrays are read.
                stored = {"type": "fixed", "name": next(self._names), "size": NEVER_THERE}
            return Typed({"type": "array", "items": stored}, pa.list_(items.kind))
        values = self.of(schema["values"], namespace, f"{path}.value")
        entry = self._record([("key", Typed("bytes", pa.string())), ("value", values)])
        return Typed({"type": "array", "items": entry.schema}, pa.map_(pa.string(), values.kind))

    def _named(self, schema: Mapping[str, Any], name: str, path: str) -> Typed:
        if schema["type"] == "enum":
            named_type = {"type": "enum", "name": next(self._names), "symbols": schema["symbols"]}
            return Typed(named_type, pa.string())
        if schema["type"] == "fixed":
            named_type = {"type": "fixed", "name": next(self._names), "size": schema["size"]}
            digits = _digits(schema, path)
            if digits:
                return Typed({**named_type, **digits}, _decimal(digits))
            return Typed(named_type, pa.binary(schema["size"]))
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

    def _record(self, fields: Sequence[tuple[str, Typed]]) -> Typed:
        members = [{"name": name, "type": field.schema} for name, field in fields]
        kind = pa.struct([(name.encode().decode(), field.kind) for name, field in fields])  # no half characters
        return Typed({"type": "record", "name": next(self._names), "fields": members}, kind)

    def _union(self, branches: Sequence[Any], namespace: str, path: str) -> Typed:
        types = [self.of(branch, namespace, path) for branch in branches]
        values = [member for member in types if not pa.types.is_null(member.kind)]
        stored = [member.schema for member in types]
        if len(values) < 2:
            return Typed(stored, values[0].kind if values else pa.null())
        if all(isinstance(member.schema, str) for member in values):
            wider = _WIDER.get(frozenset(member.schema for member in values))
            if wider is not None and len(values) == 2:
                return Typed(stored, wider)
        members = [self._record([(f"member{index}", member)]) for index, member in enumerate(values)]
        kind = pa.struct([field for member in members for field in member.kind])
        schemas = iter([member.schema for member in members])
        union = [member.schema if pa.types.is_null(member.kind) else next(schemas) for member in types]
        return Typed(union, kind)


def _has_no_bytes(kind: pa.DataType) -> bool:
    """Return whether values of a type may be encoded in no bytes."""
    if pa.types.is_struct(kind):
        return all(_has_no_bytes(field.type) for field in kind)
    return bool(pa.types.is_null(kind) or kind == pa.binary(0))


def _digits(schema: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return the decoder of a decimal; None: the type is no decimal, or no valid one (LogicalTypes.Decimal)."""
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not 0 <= scale <= precision or precision < 1:
        return None
    if "size" in schema and precision * math.log2(10) > 8 * schema["size"] - 1:
        return None
    if precision > MOST_DIGITS:
        raise OptionError(f"the column {path!r} is a decimal of {precision} digits; Spark's have {MOST_DIGITS} at most")
    return {"logicalType": _OUR_DECIMAL, "precision": precision, "scale": scale}


def _decimal(digits: Mapping[str, Any]) -> pa.DataType:
    return pa.decimal128(digits["precision"], digits["scale"])
