"""Columns that no object holds: the folders of its key, and ``_metadata``, which names the object and the chunk.

The folders, such as ``country=DE/day=2026-01-31``, name columns and their values.  Names, values and types are the same
as in Spark's file source (Spark: PartitioningUtils), with two exceptions.  Escapes such as ``%C3%A9`` are read as
UTF-8, as Arrow writes them; Spark itself escapes only ASCII.  And a column with only nulls is a string.  Names that
hide a file or a folder are also Spark's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import MOST_DIGITS
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.arrow.text_values import caster_of
from tidegate.readers.objects.values import Chunk

NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The text that stands for null."""

UNFINISHED_COPY = "._COPYING_"
"""The end of the name of a file that Hadoop still copies."""

INT_DIGITS, LONG_DIGITS = 10, 20  # the precision that Spark gives an int and a long when it widens them to a decimal
_DECIMAL = re.compile("[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DOUBLE = re.compile(rf"(?:[+-]?(?:NaN|Infinity)|{_DECIMAL.pattern}[fFdD]?)")
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(rf"{_DATE.pattern} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.][0-9])?")
_TIMESTAMP = pa.timestamp("us", "UTC")


def is_hidden(name: str) -> bool:
    """Return whether the name of a file or a folder hides it (Spark: shouldFilterOutPathName)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(UNFINISHED_COPY)


def partition_texts(key: str, prefix: str | None) -> dict[str, str | None]:
    """Return the values in the folders of a key below a prefix, by column, in their order; None for null.

    prefix: None: no folder names a column.

    The search goes from the last folder upwards, as in Spark.  It skips folders below the last ``column=value``, and
    ends at the first other folder above it.
    """
    texts: list[tuple[str, str | None]] = []
    for folder in () if prefix is None else reversed(key[len(prefix) :].split("/")[:-1]):
        name, _, value = folder.partition("=")
        if name and value:
            texts.append((unquote(name), None if value == NULL_VALUE else unquote(value)))
        elif texts:
            break
    return dict(reversed(texts))


@dataclass(frozen=True, slots=True)
class GivenColumns:
    """The columns of the user's schema, in its order; folders below the prefix name others, which no object has."""

    names: tuple[str, ...]
    prefix: str | None = ""

    def of(self, key: str) -> tuple[str, ...]:
        """Return the columns in the data of an object."""
        folders = [name.lower() for name in partition_texts(key, self.prefix)]
        return tuple(name for name in self.names if name.lower() not in folders)


def partition_fields(folders: Iterable[dict[str, str | None]], *, typed: bool) -> list[pa.Field]:
    """Return the columns of some keys, in the order in which they first occur.

    typed: infer types as Spark does: int, long, decimal without a fraction, double, timestamp, date, or string.  False:
        all columns are strings.
    """
    columns: dict[str, set[str | None]] = {}
    for texts in folders:
        for name, text in texts.items():
            columns.setdefault(name, set()).add(text)
    return [
        pa.field(name, _type_of([text for text in texts if text is not None]) if typed else pa.string())
        for name, texts in columns.items()
    ]


def partition_scalar(text: str | None, field: pa.Field, address: str) -> pa.Scalar:
    """Return a value in the type of its column.

    Raises CorruptDataError for a value that does not fit the column's type, or a null that the column does not allow.
    """
    value = None if text is None else _value(text, field.type)
    if value is None and text is not None:
        raise CorruptDataError(f"{address}: its path has no {ddl_of(field.type)} in {field.name!r}")
    if value is None and not field.nullable:
        raise CorruptDataError(f"{address}: its path has a null in {field.name!r}, and the schema allows none")
    return pa.scalar(value, field.type)


def _type_of(texts: list[str]) -> pa.DataType:
    """Return the type that fits all values of a column (Spark: findWiderTypeForPartitionColumn)."""
    types = {*map(_inferred, texts)}
    if types and all(kinds.is_integer(kind) or kinds.is_decimal(kind) for kind in types):
        if any(map(kinds.is_decimal, types)):
            return pa.decimal128(max(map(_digits, types)), 0)
        return pa.int64() if pa.int64() in types else pa.int32()
    if len(types) == 1:
        return types.pop()
    if types == {_TIMESTAMP, pa.date32()}:
        return _TIMESTAMP
    return pa.float64() if types == {pa.float64(), pa.int32()} else pa.string()


def _digits(kind: pa.DataType) -> int:
    if kinds.is_decimal(kind):
        return int(kind.precision)
    return LONG_DIGITS if kinds.is_int64(kind) else INT_DIGITS


@functools.lru_cache(maxsize=4096)
def _inferred(text: str) -> pa.DataType:
    """Return the type of one value (Spark: inferPartitionColumnValue)."""
    for kind in (pa.int32(), pa.int64()):
        if _value(text, kind) is not None:
            return kind
    if _DECIMAL.fullmatch(text):
        number = Decimal(text).as_tuple()
        exponent = int(number.exponent)
        if 0 <= exponent <= MOST_DIGITS - len(number.digits):
            return pa.decimal128(len(number.digits) + exponent, 0)
    if _DOUBLE.fullmatch(text):
        return pa.float64()
    for kind, pattern in ((_TIMESTAMP, _TIME), (pa.date32(), _DATE)):
        if pattern.fullmatch(text) and _value(text, kind) is not None:
            return kind
    return pa.string()


def _value(text: str, kind: pa.DataType) -> Any:
    """Return a value as Arrow expects it (Spark: castPartValueToDesiredType); None: the text is not of this type."""
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return text
    if kinds.is_binary(kind):
        return text.encode()
    cast = caster_of(kind)
    value = None if cast is None else cast(text)
    is_rounded = isinstance(value, Decimal) and value != Decimal(text)
    return None if is_rounded else value


METADATA = pa.field(
    "_metadata",
    pa.struct(
        [
            ("file_path", pa.string()),
            ("file_name", pa.string()),
            ("file_size", pa.int64()),
            ("file_block_start", pa.int64()),
            ("file_block_length", pa.int64()),
            ("file_modification_time", pa.timestamp("us", "UTC")),
        ]
    ),
)
"""The column, with the fields of Spark's file sources.  A block is a chunk; starts, lengths and sizes are in bytes."""


def metadata_scalar(chunk: Chunk, address: str) -> pa.Scalar:
    """Return the column's value for the rows of a chunk; a key has no escapes, unlike in Spark."""
    return pa.scalar(
        {
            "file_path": address,
            "file_name": chunk.key.rpartition("/")[2],
            "file_size": chunk.size,
            "file_block_start": chunk.start,
            "file_block_length": chunk.end - chunk.start,
            "file_modification_time": chunk.modified_ms * 1000,
        },
        METADATA.type,
    )
