"""Resolves a writer's Avro schema with a reader's, and gives the types that Spark's own reader has (SchemaConverters).

The rules are Avro's (specification 1.12, schema resolution).  Where several branches of a union fit, the same type
comes before a promotion, as in Java (Resolver.firstMatchingBranch).  fastavro 1.13 differs: it takes the first branch
that promotes, fails at aliases in a chain, and does not say which branch a value had, so it gets two schemas that
leave it no choice: each named type has a name of its own, each field the reader's name, and a branch of several is a
record with one field, which has the same bytes.  It reads, skips, promotes and fills in what the writer lacks.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError, TidegateError
from tidegate.readers.avro.types import NO_SCHEMA, PRIMITIVE, AvroType, NamedTypes, digits_of

_PROMOTED = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_TIMES = {
    "int date": pa.date32(),
    "int time-millis": pa.int32(),
    "long time-micros": pa.int64(),
    "long timestamp-millis": pa.timestamp("ms", "UTC"),
    "long timestamp-micros": pa.timestamp("us", "UTC"),
    "long timestamp-nanos": pa.timestamp("ns", "UTC"),
    "long local-timestamp-millis": pa.timestamp("ms"),
    "long local-timestamp-micros": pa.timestamp("us"),
    "long local-timestamp-nanos": pa.timestamp("ns"),
}
_WIDER = ({"int", "long"}, pa.int64()), ({"float", "double"}, pa.float64())
parsed = partial(fastavro.parse_schema, _ignore_default_error=True)
"""Prepares a schema for fastavro, whose defaults are values as it decodes them, not JSON."""


class _UnresolvedError(CorruptDataError):
    """The writer's schema does not match the reader's, by the rules of Avro."""


class AvroSchema(NamedTypes):
    """A schema that values are read as."""

    @cached_property
    def columns(self) -> Mapping[str, pa.DataType | TidegateError]:
        """The fields of ``row`` with their types; with an error if Spark cannot hold a type, or if it is not a type."""
        if self.row is None:
            return {}
        found: dict[str, pa.DataType | TidegateError] = {}
        for field in self.row.schema["fields"]:
            name = field["name"]
            try:
                own = self.type_of(field["type"], self.row.namespace)
                resolved = Resolution(self, self, [self.row.name]).of(own, own, name)
                parsed({"type": "record", "name": "field", "fields": [{"name": name, "type": resolved.writer}]})
                found[name] = pa.field(name, resolved.kind).type
            except TidegateError as problem:
                found[name] = problem
            except NO_SCHEMA:
                found[name] = CorruptDataError(f"the type of the field {name!r} is not one of Avro's")
        return found

    @property
    def readable(self) -> list[str]:
        """The names of the columns that Spark can hold."""
        return [name for name, kind in self.columns.items() if isinstance(kind, pa.DataType)]

    @cached_property
    def kind(self) -> pa.DataType:
        """The type of a value; of a row, with its readable columns.  Raises OptionError if Spark has no such type."""
        if self.row is not None:
            return pa.struct([(name, self.columns[name]) for name in self.readable])
        try:
            return Resolution(self, self).of(self.root, self.root, "").kind
        except NO_SCHEMA:
            raise CorruptDataError("its schema is not a valid Avro schema") from None


class Resolved(NamedTuple):
    """A type of the writer, as it is read: two schemas for fastavro, and the type of what it returns."""

    writer: Any
    reader: Any
    kind: pa.DataType


class Resolution:
    """Resolves types of a writer with those of a reader.

    within: the records of the reader that the types are in.
    names: the wanted fields of the reader's rows; None: all.
    """

    def __init__(
        self,
        writer: AvroSchema,
        reader: AvroSchema,
        within: Sequence[str] = (),
        names: Collection[str] | None = None,
    ) -> None:
        self._writer, self._reader, self._wanted = writer, reader, names
        self._within = [*within]
        self._names = (f"type{number}" for number in itertools.count())

    def of(self, writer: AvroType, reader: AvroType, path: str) -> Resolved:
        """Resolve a type; the path is the reader's column, for errors.

        Raises CorruptDataError if the types do not match, OptionError for a type that Spark cannot hold, and one of
        NO_SCHEMA for what is not a type.
        """
        if "union" in {writer.kind, reader.kind}:
            return self._union(writer, reader, path)
        same = writer.kind == reader.kind
        if not same and reader.kind not in _PROMOTED.get(writer.kind, ()):
            raise _unresolved(writer, reader, path)
        if same and writer.name and writer.short_name not in _names_of(reader):
            raise _unresolved(writer, reader, path)
        if reader.kind == "record":
            return self._record(writer, reader, path)
        if reader.kind == "enum":
            named = {"type": "enum", "name": next(self._names)}
            default = {"default": reader.schema["default"]} if "default" in reader.schema else {}
            symbols = {"symbols": reader.schema["symbols"]}
            return Resolved(named | {"symbols": writer.schema["symbols"]}, named | symbols | default, pa.string())
        if reader.kind in {"array", "map"}:
            return self._collection(writer, reader, path)
        return self._plain(writer, reader, path)

    def _plain(self, writer: AvroType, reader: AvroType, path: str) -> Resolved:
        written: Any = writer.kind
        read: Any = reader.kind
        kind = PRIMITIVE.get(reader.kind)
        if reader.kind == "fixed":
            size = reader.schema["size"]
            if writer.schema["size"] != size:
                raise _unresolved(writer, reader, path)
            written = read = {"type": "fixed", "name": next(self._names), "size": size}
            kind = pa.binary(size)
        if (digits := digits_of(reader.schema, path)) is None:
            return Resolved(written, read, self._time(writer, reader, path) or kind)
        own = digits_of(writer.schema, path)
        if own and own["scale"] != digits["scale"]:
            raise _unresolved(writer, reader, path)
        written, read = ({**(base if isinstance(base, dict) else {"type": base}), **digits} for base in (written, read))
        return Resolved(written, read, pa.decimal128(digits["precision"], digits["scale"]))

    def _time(self, writer: AvroType, reader: AvroType, path: str) -> pa.DataType | None:
        """Return the type of times: an instant stays the same whatever unit the reader declares."""
        written, read = (_TIMES.get(f"{of.kind} {of.schema.get('logicalType')}") for of in (writer, reader))
        if written is None or read is None or written == read:
            return read
        both = pa.types.is_timestamp(written) and pa.types.is_timestamp(read)
        if not both or written.tz != read.tz:
            raise _unresolved(writer, reader, path)
        return written

    def _collection(self, writer: AvroType, reader: AvroType, path: str) -> Resolved:
        inner, step = ("items", "element") if reader.kind == "array" else ("values", "value")
        own = self._writer.type_of(writer.schema[inner], writer.namespace)
        wanted = self._reader.type_of(reader.schema[inner], reader.namespace)
        item = self.of(own, wanted, f"{path}.{step}")
        kind = pa.list_(item.kind) if reader.kind == "array" else pa.map_(pa.string(), item.kind)
        return Resolved({"type": reader.kind, inner: item.writer}, {"type": reader.kind, inner: item.reader}, kind)

    def _record(self, writer: AvroType, reader: AvroType, path: str) -> Resolved:
        if reader.name in self._within:
            raise OptionError(
                f"the column {path!r} is of the type {reader.name}, which contains itself: Spark cannot hold it"
            )
        names = None if path else self._wanted
        wanted = {field["name"]: field for field in reader.schema["fields"] if names is None or field["name"] in names}
        self._within.append(reader.name)
        try:
            written, read, kinds = self._fields(writer, reader, wanted, path)
        finally:
            self._within.pop()
        named = {"type": "record", "name": next(self._names)}
        kind = pa.struct([(name, kinds[name]) for name in wanted])
        return Resolved(named | {"fields": written}, named | {"fields": read}, kind)

    def _fields(
        self, writer: AvroType, reader: AvroType, wanted: Mapping[str, Any], path: str
    ) -> tuple[list[Any], list[Any], dict[str, pa.DataType]]:
        """Return the fields that are written and those that are read, and the types of the wanted ones."""
        written: list[dict[str, Any]] = []
        read: list[dict[str, Any]] = []
        kinds: dict[str, pa.DataType] = {}
        for name, field in _by_reader_s_names(writer, reader, path):
            own = self._writer.type_of(field["type"], writer.namespace)
            target = wanted.get(name)
            if target is None:
                written.append({"name": f" {len(written)}", "type": self._skip(own, {})})  # no name that Avro allows
                if _has_list(written[-1]["type"]):  # fastavro skips past the end of a list that claims too much
                    read.append(written[-1])
                continue
            inner = f"{path}.{name}".lstrip(".")
            resolved = self.of(own, self._reader.type_of(target["type"], reader.namespace), inner)
            written.append({"name": name, "type": resolved.writer})
            read.append({"name": name, "type": resolved.reader})
            kinds[name] = resolved.kind
        for name, field in wanted.items():
            if name not in kinds:
                kinds[name], default = self._missing(field, reader, f"{path}.{name}".lstrip("."))
                read.append({"name": name, "type": "null", "default": default})
        return written, read, kinds

    def _missing(self, field: Mapping[str, Any], reader: AvroType, path: str) -> tuple[pa.DataType, Any]:
        """Return the type and the default of a field that the writer lacks."""
        if "default" not in field:
            raise _UnresolvedError(f"it has no field {path!r}, and that has no default")
        own = self._reader.type_of(field["type"], reader.namespace)
        return self._own_kind(own, path), self._default(own, field["default"], path)

    def _own_kind(self, own: AvroType, path: str) -> pa.DataType:
        return Resolution(self._reader, self._reader, self._within).of(own, own, path).kind

    def _default(self, own: AvroType, value: Any, path: str) -> Any:  # noqa: PLR0911 - one for each kind
        """Return a default in JSON as fastavro returns a value of the type."""
        inner = partial(self._reader.type_of, namespace=own.namespace)
        expected: Any = {"null": type(None), "boolean": bool, "int": int, "long": int, "array": list}.get(own.kind, str)
        if own.kind == "union":
            return self._default_of_branch([inner(branch) for branch in own.schema], value, path)
        if own.kind in {"float", "double"}:
            return float(value)
        if own.kind == "record":
            fields = own.schema["fields"]
            values = {field["name"]: value.get(field["name"], field.get("default")) for field in fields}
            return {f["name"]: self._default(inner(f["type"]), values[f["name"]], path) for f in fields}
        if own.kind == "map":
            return {key: self._default(inner(own.schema["values"]), item, path) for key, item in value.items()}
        if type(value) is not expected:
            raise _UnresolvedError(f"the default of the field {path!r} is not of its type")
        if own.kind == "array":
            return [self._default(inner(own.schema["items"]), item, path) for item in value]
        if own.kind not in {"bytes", "fixed"}:
            return value
        data = value.encode("latin-1")
        digits = digits_of(own.schema, path)
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-digits["scale"]) if digits else data

    def _default_of_branch(self, branches: Sequence[AvroType], value: Any, path: str) -> Any:
        members = [branch for branch in branches if branch.kind != "null"]
        for branch in branches:
            with suppress(_UnresolvedError, *NO_SCHEMA):
                found = self._default(branch, value, path)
                is_plain = branch.kind == "null" or len(members) == 1 or _wider(members)
                return found if is_plain else {f"member{members.index(branch)}": found}
        raise _UnresolvedError(f"the default of the field {path!r} is not of its type")

    def _union(self, writer: AvroType, reader: AvroType, path: str) -> Resolved:
        """Resolve each branch of the writer; a value of one that matches none of the reader's is refused."""
        sources, targets = self._writer.branches(writer), self._reader.branches(reader)
        members = [target for target in targets if target.kind != "null"]
        wider = _wider(members)
        are_wrapped = len(members) > 1 and wider is None
        written, read = [], []
        kinds: dict[int, pa.DataType] = {}
        for source in sources:
            found = self._branch(source, targets, path, members if are_wrapped else ())
            if found is None:
                written.append({"type": "record", "name": next(self._names), "fields": []})
                continue
            target, resolved = found
            written.append(resolved.writer)
            if resolved.reader not in read:
                read.append(resolved.reader)
            if target.kind != "null" and kinds.setdefault(members.index(target), resolved.kind) != resolved.kind:
                raise _unresolved(writer, reader, path)
        if not read:
            raise _unresolved(writer, reader, path)
        for number, member in enumerate(members):
            if number not in kinds:
                kinds[number] = self._own_kind(member, f"{path}.member{number}" if are_wrapped else path)
        kind = wider or (kinds[0] if kinds else pa.null())
        if are_wrapped:
            kind = pa.struct([(f"member{number}", kinds[number]) for number in range(len(members))])
        return Resolved(written if writer.kind == "union" else written[0], read, kind)

    def _branch(
        self, source: AvroType, targets: Sequence[AvroType], path: str, wrapped: Sequence[AvroType]
    ) -> tuple[AvroType, Resolved] | None:
        """Return the branch of the reader for one of the writer, and both resolved."""
        for target in sorted(targets, key=lambda target: (target.kind != source.kind, target.name != source.name)):
            member = f"member{wrapped.index(target)}" if target in wrapped else ""
            with suppress(_UnresolvedError):
                resolved = self.of(source, target, f"{path}.{member}".strip(".") if member else path)
                if not member:
                    return target, resolved
                named = {"type": "record", "name": next(self._names)}
                both = (named | {"fields": [{"name": member, "type": of}]} for of in resolved[:2])
                return target, Resolved(next(both), next(both), resolved.kind)
        return None

    def _skip(self, own: AvroType, known: dict[str, str]) -> Any:  # noqa: PLR0911 - one for each kind
        """Return a schema of the same bytes for a value that nobody asks for, whatever Spark can hold.

        known: the names of the types that the schema has defined so far.
        """
        if own.kind == "union":
            return [self._skip(branch, known) for branch in self._writer.branches(own)]
        if own.kind == "enum":
            return "int"
        if own.name in known:
            return known[own.name]
        if own.kind in {"array", "map"}:
            inner = "items" if own.kind == "array" else "values"
            item = self._writer.type_of(own.schema[inner], own.namespace)
            return {"type": own.kind, inner: self._skip(item, known)}
        if not own.name:
            return own.kind
        name = known[own.name] = next(self._names)
        if own.kind == "fixed":
            return {"type": "fixed", "name": name, "size": own.schema["size"]}
        types = (self._writer.type_of(field["type"], own.namespace) for field in own.schema["fields"])
        fields = [{"name": f" {n}", "type": self._skip(type_, known)} for n, type_ in enumerate(types)]
        return {"type": "record", "name": name, "fields": fields}


def _wider(members: Sequence[AvroType]) -> pa.DataType | None:
    """Return the type of a union of two numbers, one of which holds the other."""
    kinds = {member.kind for member in members}
    return next((kind for both, kind in _WIDER if kinds == both and len(members) == 2), None)


def _names_of(reader: AvroType) -> set[str]:
    return {name.rpartition(".")[2] for name in (reader.name, *reader.schema.get("aliases", ()))}


def _by_reader_s_names(writer: AvroType, reader: AvroType, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the writer's fields by the names that the reader's aliases give them.

    Aliases rewrite the writer's schema, so a name may go on to another field whose alias it is.
    """
    fields = {field["name"]: field for field in writer.schema["fields"]}
    aliases = {alias: field["name"] for field in reader.schema["fields"] for alias in field.get("aliases", ())}

    def renamed(name: str, *before: str) -> str:
        new: str = aliases.get(name, name)
        if new == name or (new in fields and new not in before and renamed(new, *before, name) == new):
            return name
        return new

    names = [renamed(name) for name in fields]
    if len({*names}) < len(names):
        raise _UnresolvedError(f"several of its fields are the same in {path or reader.name!r}, by name or alias")
    return zip(names, fields.values(), strict=True)


def _has_list(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_list, schema))
    if not isinstance(schema, dict):
        return False
    inner = [schema.get("values"), *(field["type"] for field in schema.get("fields", ()))]
    return schema["type"] == "array" or any(map(_has_list, inner))


def _unresolved(writer: AvroType, reader: AvroType, path: str) -> _UnresolvedError:
    was, now = ("a union" if of.kind == "union" else of.name or of.kind for of in (writer, reader))
    where = f"the field {path!r}" if path else "a value"
    if was == now:
        return _UnresolvedError(f"{where} was written as another {now}")
    return _UnresolvedError(f"{where} was written as {was}, which cannot be read as {now}")
