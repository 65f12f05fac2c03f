"""Reads JSON objects as whole columns at memory speed.

A compiled loop finds the values of the wanted fields, and Arrow converts what it has found.  What the loop is not sure
of is left to others, all objects of a call together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.readers.arrow.arrays import booleans
from tidegate.readers.arrow.text_values import decimals
from tidegate.readers.compiled import texts_at
from tidegate.readers.formats import json_loop as loop
from tidegate.readers.formats.json_loop import Bytes, Found, Ints, Known

_MOST_BYTES = 2**31 - 1
_MOST_PLACES = 1 << 25  # of values, which take 9 bytes each


@dataclass(frozen=True)
class JsonColumns:
    """Reads objects to the columns of one schema."""

    _schema: pa.Schema
    _known: Known

    @classmethod
    def of(cls, schema: pa.Schema, *, strict: bool) -> JsonColumns | None:
        """Return what reads objects to ``schema``.

        None: it has other types than texts, numbers, booleans, and structs, arrays and maps of them.

        strict: objects with other fields are left to others.
        """
        fields = [pa.field("", pa.struct(list(schema)))]
        numbers: list[tuple[int, int, int]] = []
        tables = [0]
        for field, table in zip(fields, tables, strict=False):  # which grow
            begin, inner = len(fields), _fields_of(field.type)
            adds_to = max(tables) + 1 if inner and not pa.types.is_struct(field.type) else loop.NOWHERE
            fields += inner
            tables += [table if adds_to == loop.NOWHERE else adds_to] * len(inner)
            numbers.append((begin, len(fields), adds_to))
        wants = [loop.OBJECT, *(_wanted(field.type) for field in fields[1:])]
        if None in wants:
            return None
        names = [field.name.encode() for field in fields]
        data = np.frombuffer(b"".join(names) or b"\0", np.uint8)
        links = np.full((len(fields), 3), loop.NOWHERE, np.int32)
        links[:, loop.NAME_END] = np.cumsum([*map(len, names)])
        for begin, end, _ in numbers:
            for field in range(end - 1, begin - 1, -1) if end - begin > loop.FEW else ():
                size = len(names[field])
                bucket = begin + loop.bucket_of(data, int(links[field, loop.NAME_END]) - size, size, end - begin)
                links[bucket, loop.HEAD], links[field, loop.NEXT_FIELD] = field, links[bucket, loop.HEAD]
        begins, ends, adding = np.array(numbers, np.int32).T.copy()
        return cls(schema, Known(_ints(wants), begins, ends, _ints(tables), adding, data, links, strict))

    def read(self, data: bytes, ends: Ints) -> list[pa.Array] | None:
        """Return columns with a row for each object; None: some are left to others.

        data: an object in each text, behind each other, all in UTF-8.  Blanks and line ends may stand around objects.
        ends: where each text ends.

        Raises ArrowInvalid for a number that does not fit its type, and for half a surrogate pair.
        """
        # Each element of an array, and each entry of a map, follows a comma or an opening bracket.
        repeated = sum(map(data.count, (b",", b"[", b"{"))) if self._known.tables.any() else 0
        rooms = np.where(self._known.tables == 0, len(ends), repeated)
        starts = np.cumsum(rooms) - rooms
        total = int(rooms.sum())
        if len(data) > _MOST_BYTES or total > _MOST_PLACES:
            return None
        found = Found(
            np.zeros(total, np.uint8),
            np.zeros(total, np.int32),
            np.zeros(total, np.int32),
            starts,
            np.zeros(self._known.tables.max() + 1, np.int64),
        )
        text = np.frombuffer(data, np.uint8)
        is_sure = loop.find(text, ends, self._known, found)
        return self._inner(list(self._schema), loop.ROOT, text, found) if is_sure else None

    def _inner(self, fields: list[pa.Field], parent: int, text: Bytes, found: Found) -> list[pa.Array]:
        first = int(self._known.begins[parent])
        return [self._column(field.type, place, text, found) for place, field in enumerate(fields, first)]

    def _column(self, kind: pa.DataType, field: int, text: Bytes, found: Found) -> pa.Array:
        start, rows = found.starts[field], int(found.rows[self._known.tables[field]])
        kinds, begins, lengths = (of[start : start + rows] for of in (found.kinds, found.begins, found.lengths))
        nulls = kinds <= loop.NULL
        present = booleans(~nulls).buffers()[1] if nulls.any() else None
        if pa.types.is_nested(kind):
            inner = _fields_of(kind)
            children, buffers = self._inner(inner, field, text, found), [present]
            if not pa.types.is_struct(kind):
                ends = np.zeros(rows + 1, np.int32)
                np.cumsum(np.where(nulls, 0, lengths), out=ends[1:])
                buffers.append(pa.py_buffer(ends))
            if pa.types.is_map(kind):
                children = [pa.StructArray.from_arrays(children, fields=inner)]
            return pa.Array.from_buffers(kind, rows, buffers, children=children)
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, rows, [present, booleans(kinds == loop.TRUE).buffers()[1]])
        if (kinds == loop.ESCAPED).any():
            return _unescaped(text, begins, lengths, present)
        texts = texts_at(text, begins, lengths, present, pa.string())
        return decimals(texts, kind) if pa.types.is_decimal(kind) else texts.cast(kind)


def _ints(numbers: list[Any]) -> Ints:
    return np.array(numbers, np.int32)


def _fields_of(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, the elements of an array, or the keys and values of a map."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def _wanted(kind: pa.DataType) -> int | None:
    """Return what the values of a field of a type may be; None: only others can read such a field."""
    are = pa.types
    if are.is_struct(kind) or are.is_map(kind):
        return loop.NULL | loop.OBJECT
    if are.is_list(kind):
        return loop.NULL | loop.ARRAY
    if are.is_string(kind):
        return loop.NULL | loop.TEXT | loop.ESCAPED
    if are.is_signed_integer(kind) or are.is_float32(kind) or are.is_float64(kind) or are.is_decimal(kind):
        return loop.NULL | loop.NUMBER
    return (loop.NULL | loop.TRUE | loop.FALSE) if are.is_boolean(kind) else None


def _unescaped(data: Bytes, begins: Ints, lengths: Ints, present: pa.Buffer | None) -> pa.StringArray:
    """Return parts of ``data`` as texts, with what their escapes stand for.  Raises ArrowInvalid for half a pair."""
    ends = np.zeros(len(begins) + 1, np.int32)
    texts = np.empty(int(lengths.sum()), np.uint8)
    if not loop.copy_unescaped(data, begins, lengths, ends, texts):
        raise pa.ArrowInvalid("half a surrogate pair")
    parts = pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]])
    return pa.Array.from_buffers(pa.string(), len(begins), [present, *parts])
