"""The types in an Avro schema, with the definitions that its names stand for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from fastavro.schema import SchemaParseException

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow.conform import MOST_DIGITS

PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_NAMED = ("record", "error", "enum", "fixed")
_KINDS = {*PRIMITIVE, *_NAMED, "array", "map"}
NO_SCHEMA = (LookupError, TypeError, AttributeError, ValueError, RecursionError, OverflowError, SchemaParseException)
"""What code raises that expects a schema and finds something else."""


class AvroType(NamedTuple):
    """A type in a schema.

    kind: "union", "record", "enum", "fixed", "array", "map", or the name of a primitive type.
    schema: its JSON value.
    namespace: of names in it without one.
    name: the full name of a named type.
    """

    kind: str
    schema: Any
    namespace: str
    name: str = ""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


class NamedTypes:
    """A schema with its named types.

    schema, references: JSON values.  The schema may use the names that its references define.

    Raises CorruptDataError if it is not a valid Avro schema, as far as that shows without each type.
    """

    def __init__(self, schema: Any, references: Iterable[Any] = ()) -> None:
        self._named: dict[str, AvroType] = {}
        try:
            for part in (*references, schema):
                self._define(part)
            self.root = self.type_of(schema, "")
        except NO_SCHEMA:
            raise CorruptDataError("its schema is not a valid Avro schema") from None

    def type_of(self, schema: Any, namespace: str) -> AvroType:
        """Return the type that a JSON value stands for, in a namespace.  Raises one of NO_SCHEMA for anything else."""
        if isinstance(schema, list):
            return AvroType("union", schema, namespace)
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return self.type_of(kind, namespace)
        if kind in _NAMED:
            return self._named[_full_name(schema["name"], schema.get("namespace", namespace))]
        if kind in _KINDS:
            return AvroType(kind, {"type": kind} if isinstance(schema, str) else schema, namespace)
        return self._named.get(_full_name(kind, namespace)) or self._named[kind]

    def branches(self, own: AvroType) -> list[AvroType]:
        """Return the types of a union; of another type, itself."""
        return [own] if own.kind != "union" else [self.type_of(branch, own.namespace) for branch in own.schema]

    @cached_property
    def row(self) -> AvroType | None:
        """The record that a value is, unless it is null; None: values are something else."""
        branches = [branch for branch in self.branches(self.root) if branch.kind != "null"]
        return branches[0] if len(branches) == 1 and branches[0].kind == "record" else None

    def _define(self, schema: Any) -> None:
        left = [(schema, "")]
        while left:
            part, namespace = left.pop()
            if isinstance(part, list):
                left += [(branch, namespace) for branch in part]
            if not isinstance(part, dict):
                continue
            if part["type"] in _NAMED:
                name = _full_name(part["name"], part.get("namespace", namespace))
                namespace = name.rpartition(".")[0]
                kind = "record" if part["type"] == "error" else part["type"]
                self._named[name] = AvroType(kind, part, namespace, name)
            left += [(part[inner], namespace) for inner in ("type", "items", "values") if inner in part]
            left += [(field["type"], namespace) for field in part.get("fields", ())]


def digits_of(schema: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return the attributes of a decimal; None: the type is not a valid decimal (LogicalTypes.Decimal)."""
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not 0 <= scale <= precision or precision < 1:
        return None
    if schema["type"] not in {"bytes", "fixed"}:
        return None
    if "size" in schema and precision * math.log2(10) > 8 * schema["size"] - 1:
        return None
    if precision > MOST_DIGITS:
        raise OptionError(f"the column {path!r} is a decimal of {precision} digits; Spark's have {MOST_DIGITS} at most")
    return {"logicalType": "decimal", "precision": precision, "scale": scale}


def _full_name(name: str, namespace: str | None) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name
