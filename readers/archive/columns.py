"""Which columns of a table are Kafka's: by Spark's names, or by the option ``archive.columns``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.errors import OptionError, did_you_mean

OPTION = "archive.columns"
_NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_NEEDED = ("topic", "partition", "offset", "timestamp", "value")


class TableColumns(NamedTuple):
    """Where the columns of Kafka are in a table.

    paths: the dotted path of each column that is named; the others have Spark's names.
    topic: the topic of all rows of a table without such a column.
    """

    paths: tuple[tuple[str, str], ...] = ()
    topic: str | None = None

    @classmethod
    def of_text(cls, text: str) -> TableColumns:
        """Read the option, such as ``offset=meta.offset, topic='orders'``.  Raises ValueError if it is malformed."""
        paths: dict[str, str] = {}
        topic = None
        for pair in filter(None, map(str.strip, text.split(","))):
            name, equals, path = map(str.strip, pair.partition("="))
            if not equals or not path:
                raise ValueError(f"expected name=column, separated by commas, such as offset=meta.offset; got {pair!r}")
            if name not in _NAMES:
                raise ValueError(f"{name!r} is not a column of Kafka{did_you_mean(name, _NAMES)}")
            if path[0] == "'" and name == "topic" and len(path) > 2 and path[-1] == "'":
                topic = path[1:-1]
            else:
                paths[name] = path
        return cls(tuple(paths.items()), topic)

    def in_table(self, schema: pa.Schema, table: str) -> dict[str, str]:
        """Return the dotted path of each column that a table has.

        table: the option and its value, for errors.

        Raises OptionError for a table that lacks a column, or has one of a type that Kafka's never have.
        """
        named = dict(self.paths)
        found: dict[str, str] = {}
        for name in _NAMES:
            path = named.get(name, name)
            kind = _type_at(schema, path.split("."))
            if kind is None:
                if name in named or (name in _NEEDED and not (name == "topic" and self.topic is not None)):
                    raise OptionError(self._lacking(schema, table, name, path))
                continue
            if not _FITS[name](kind):
                raise OptionError(
                    f"{table}, whose column {path} is {kind}, which cannot be the {name} of a record; name the right "
                    f"one in {OPTION}, such as {name}=meta.{name}"
                )
            if name != "topic" or self.topic is None:
                found[name] = path
        return found

    def _lacking(self, schema: pa.Schema, table: str, name: str, path: str) -> str:
        there = ", ".join(schema.names)
        sentence = f"{table}, which has no column {path}, but {there}"
        if name == "value" and not self.paths:
            return (
                f"{sentence}: its rows are fields of records, and an archive holds each record's bytes; keep the value "
                f"as it was in Kafka, or name its column in {OPTION}, such as value=raw"
            )
        example = "topic='orders' if all its records are of one topic" if name == "topic" else f"{name}=meta.{name}"
        return f"{sentence}; name the column of the record's {name} in {OPTION}, such as {example}"


def _type_at(schema: pa.Schema, path: list[str]) -> pa.DataType | None:
    fields: Any = schema
    for name in path:
        if isinstance(fields, pa.DataType) and not pa.types.is_struct(fields):
            return None
        place = fields.get_field_index(name)
        if place < 0:
            return None
        fields = fields.field(place).type
    return fields


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = pa.types
    return any(
        is_kind(kind)
        for is_kind in (
            kinds.is_binary,
            kinds.is_large_binary,
            kinds.is_binary_view,
            kinds.is_string,
            kinds.is_large_string,
            kinds.is_string_view,
        )
    )


def _is_text(kind: pa.DataType) -> bool:
    return _is_bytes(kind) and not any(is_kind(kind) for is_kind in _RAW)


_RAW = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)


def _are_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    return [field.name for field in kind.value_type] == ["key", "value"] and all(
        _is_bytes(field.type) for field in kind.value_type
    )


_FITS = {
    "key": _is_bytes,
    "value": _is_bytes,
    "topic": _is_text,
    "partition": pa.types.is_integer,
    "offset": pa.types.is_integer,
    "timestamp": pa.types.is_timestamp,
    "timestampType": pa.types.is_integer,
    "headers": _are_headers,
}


def value_at(batch: pa.RecordBatch | pa.Table, path: str) -> Any:
    """Return the column at a dotted path."""
    top, *remainder = path.split(".")
    column = batch.column(top)
    for name in remainder:
        column = _children(column)[name]
    return column


def _children(column: Any) -> dict[str, Any]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return dict(zip([field.name for field in column.type], column.flatten(), strict=True))


def leaves_of(paths: Iterator[str], all_leaves: dict[str, int]) -> list[int]:
    """Return the numbers of the leaves under dotted paths."""
    under = tuple(f"{path}." for path in paths)
    return [leaf for path, leaf in all_leaves.items() if f"{path}.".startswith(under)]
