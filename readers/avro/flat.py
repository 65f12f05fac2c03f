"""Decodes flat records of Avro at memory speed: their fields are primitive types, or unions of one with null.

A compiled loop reads what it is sure of.  Values of which it is not are left to fastavro, all of a call together, so
that only one decides what is no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.arrow.arrays import booleans, integers
from tidegate.readers.compiled import compiled, texts_at

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Longs: TypeAlias = "npt.NDArray[np.int64]"

_BOOLEAN, _WHOLE, _SINGLE, _DOUBLE, _TEXT = range(5)
_CODES = {
    "boolean": _BOOLEAN,
    "int": _WHOLE,
    "long": _WHOLE,
    "float": _SINGLE,
    "double": _DOUBLE,
    "bytes": _TEXT,
    "string": _TEXT,
}
_VARINT_BITS = 63
_MOST_BYTES = 2**31


@dataclass(frozen=True)
class FlatRecords:
    """Decodes records of one schema.

    codes: of each written field, what it is.
    nulls: the place of null in each field's union, or -1.
    places: the written field of each field of ``kind``.
    """

    codes: Longs
    nulls: Longs
    places: Sequence[int]
    kind: pa.StructType

    @classmethod
    def of(cls, writer: Any, reader: Any, kind: pa.DataType) -> FlatRecords | None:
        """Return what decodes values as ``kind``; None: they are not flat, or fields change their types.

        writer, reader: schemas as ``Resolution`` makes them.
        """
        if not (isinstance(writer, Mapping) and isinstance(reader, Mapping) and writer["type"] == "record"):
            return None
        written = {field["name"]: field["type"] for field in writer["fields"]}
        read = {field["name"]: field["type"] for field in reader["fields"]}
        codes = [_code(of) for of in written.values()]
        if not kind.num_fields or None in codes or any(written.get(name) != of for name, of in read.items()):
            return None
        names = [*written]
        places = [names.index(field.name) for field in kind]
        if any(codes[place] != _code_of(field.type) for place, field in zip(places, kind, strict=True)):
            return None
        nulls = [of.index("null") if isinstance(of, list) else -1 for of in written.values()]
        return cls(np.array(codes, np.int64), np.array(nulls, np.int64), places, kind)

    def decode(self, values: Sequence[bytes]) -> pa.StructArray | None:
        """Return values, each from its own bytes; None: some are left to fastavro."""
        data = np.frombuffer(b"".join(values) or b"\0", np.uint8)
        if len(data) >= _MOST_BYTES:
            return None
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        numbers = np.zeros((len(self.codes), len(values)), np.int64)
        lengths = np.zeros((len(self.codes), len(values)), np.int64)
        present = np.ones((len(self.codes), len(values)), np.bool_)
        if not _decode(data, ends, self.codes, self.nulls, numbers, lengths, present):
            return None
        try:
            columns = [
                self._column(data, numbers[place], lengths[place], present[place], field.type)
                for place, field in zip(self.places, self.kind, strict=True)
            ]
        except pa.ArrowInvalid:  # a text that is not UTF-8, or an int that is too large
            return None
        return pa.StructArray.from_arrays(columns, fields=[*self.kind])

    def _column(
        self, data: Bytes, numbers: Longs, lengths: Longs, present: npt.NDArray[np.bool_], kind: pa.DataType
    ) -> pa.Array:
        nulls = None if present.all() else ~present
        bits = None if nulls is None else booleans(present).buffers()[1]
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            column = texts_at(data, numbers, lengths, bits, kind)
            column.validate(full=True)
            return column
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, len(numbers), [bits, booleans(numbers != 0).buffers()[1]])
        if pa.types.is_int32(kind) or pa.types.is_date32(kind):
            return integers(numbers, pa.int64(), nulls).cast(pa.int32()).view(kind)
        return integers(numbers.astype(np.int32) if pa.types.is_float32(kind) else numbers, kind, nulls)


def _code(written: Any) -> int | None:
    """Return what a field is by its type, which may be a union with null; None: it is not primitive."""
    if isinstance(written, list):
        others = [one for one in written if one != "null"]
        written = others[0] if len(others) == 1 < len(written) else None
    return _CODES.get(written) if isinstance(written, str) else None


def _code_of(kind: pa.DataType) -> int | None:
    """Return what a field has to be that is a column of a type, unchanged."""
    are = pa.types
    if are.is_int32(kind) or are.is_int64(kind) or are.is_date32(kind) or are.is_timestamp(kind):
        return _WHOLE
    if are.is_string(kind) or are.is_binary(kind):
        return _TEXT
    return {pa.bool_(): _BOOLEAN, pa.float32(): _SINGLE, pa.float64(): _DOUBLE}.get(kind)


@compiled
def _varint(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read a zigzag number; return it and its end, which is -1 if it is cut off or too long."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < stop and shift <= _VARINT_BITS:
        byte = data[at]
        at += 1
        if shift == _VARINT_BITS and byte > 1:
            return 0, -1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return 0, -1


@compiled
def _decode(  # noqa: C901, PLR0911, PLR0912, PLR0917 - one loop over bytes; Numba takes no objects
    data: Bytes,
    ends: Longs,
    codes: Longs,
    nulls: Longs,
    numbers: Any,
    lengths: Any,
    present: Any,
) -> bool:
    """Write what each value has: numbers, the bits of floats, and begins and lengths of texts; False: one is odd."""
    at = 0
    for row in range(len(ends)):
        stop = ends[row]
        for place in range(len(codes)):
            if nulls[place] >= 0:
                branch, at = _varint(data, at, stop)
                if at < 0 or branch < 0 or branch > 1:
                    return False
                if branch == nulls[place]:
                    present[place, row] = False
                    continue
            code = codes[place]
            if code == _WHOLE:
                number, at = _varint(data, at, stop)
                if at < 0:
                    return False
                numbers[place, row] = number
            elif code == _TEXT:
                length, at = _varint(data, at, stop)
                if at < 0 or length < 0 or length > stop - at:
                    return False
                numbers[place, row], lengths[place, row] = at, length
                at += length
            elif code == _BOOLEAN:
                if at >= stop or data[at] > 1:
                    return False
                numbers[place, row] = data[at]
                at += 1
            else:
                size = 8 if code == _DOUBLE else 4
                if size > stop - at:
                    return False
                bits = np.uint64(0)
                for byte in range(size):
                    bits |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
                numbers[place, row] = np.int64(bits)
                at += size
        if at != stop:
            return False
    return True
