"""Reads and writes the messages of an ORC object: Protocol Buffers, compressed in blocks.

The functions know only a few fields.  They keep all others as they are, so that a message can be written with some
fields changed (Protocol Buffers: encoding; ORC specification v1: compression).  The runtime of Protocol Buffers could
replace only ``message`` and ``encoded``, so it is not worth a dependency.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tidegate.errors import CorruptDataError
from tidegate.readers.decompression import SizeLimit, decompress

__all__ = ["Blocks", "Message", "bytes_in", "encoded", "message", "number_in", "numbers_in", "parts_of", "signed_in"]

Message: TypeAlias = "list[tuple[int, int | bytes]]"
"""The fields in their order: the number of each, and its value; bytes are texts, messages or packed numbers."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
HEADER_BYTES = 3  # the size of the header before each block
MOST_BYTES = 1 << 22  # the maximum size of a written block, since a header has 23 bits for the length

_CODECS = {1: "deflate", 2: "snappy", 4: "lz4 block", 5: "zstd"}
# The maximum size of a block that is read.
LARGEST_BLOCK = 1 << 23


def message(data: bytes) -> Message:
    """Return the fields of a message.

    Raises CorruptDataError for bytes that are no message.
    """
    fields: Message = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == VARINT:
            value, at = _varint(data, at)
            fields.append((tag >> 3, value))
            continue
        length, at = _varint(data, at) if tag & 7 == BYTES else (_FIXED.get(tag & 7, len(data)), at)
        if at + length > len(data):
            raise CorruptDataError("one of its messages is broken")
        fields.append((tag >> 3, data[at : at + length]))
        at += length
    return fields


def encoded(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """Return a message as bytes; it may not have values of a fixed length (FIXED32 and FIXED64)."""
    data = bytearray()
    for field, value in fields:
        if isinstance(value, int):
            data += _as_varint(field << 3 | VARINT) + _as_varint(value)
        else:
            data += _as_varint(field << 3 | BYTES) + _as_varint(len(value)) + value
    return bytes(data)


def parts_of(fields: Message, number: int) -> list[bytes]:
    """Return the values of a repeated field of bytes."""
    return [value for field, value in fields if field == number and isinstance(value, bytes)]


def bytes_in(fields: Message, number: int) -> bytes:
    """Return the last value of a field of bytes; empty if there is none."""
    return (parts_of(fields, number) or [b""])[-1]


def number_in(fields: Message, number: int) -> int:
    """Return the last value of a field of numbers; 0 if there is none."""
    return next((value for field, value in reversed(fields) if field == number and isinstance(value, int)), 0)


def signed_in(fields: Message, number: int) -> int | None:
    """Return the last value of a field of signed numbers; None if there is none."""
    values = [value for field, value in fields if field == number and isinstance(value, int)]
    return (values[-1] >> 1) ^ -(values[-1] & 1) if values else None


def numbers_in(fields: Message, number: int) -> list[int]:
    """Return the values of a repeated field of numbers, packed or not."""
    numbers = []
    for field, value in fields:
        if field != number:
            continue
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = _varint(value, at)
            numbers.append(item)
    return numbers


class Blocks(NamedTuple):
    """An object's orc_proto.CompressionKind, and the maximum size of a decompressed block in bytes."""

    kind: int
    size: int

    def decompressed(self, data: bytes) -> bytes:
        """Decompress blocks; raises CorruptDataError for blocks that are damaged, or have an unknown codec."""
        if self.kind == 0:
            return data
        if self.size > LARGEST_BLOCK:
            raise CorruptDataError(f"its blocks would have {self.size} bytes, and ORC has none beyond {LARGEST_BLOCK}")
        if self.kind not in _CODECS:
            raise CorruptDataError(f"its compression, number {self.kind}, is none of zlib, snappy, lz4 and zstd")
        parts = []
        at = 0
        while at < len(data):
            header = int.from_bytes(data[at : at + HEADER_BYTES], "little")
            at += HEADER_BYTES
            part = data[at : at + (header >> 1)]
            at += header >> 1
            if at > len(data):
                raise CorruptDataError("one of its messages is cut off")
            parts.append(part if header & 1 else self._block(part))
        return b"".join(parts)

    def stored(self, data: bytes) -> bytes:
        """Return blocks that hold these bytes without compression."""
        if self.kind == 0:
            return data
        most = min(self.size, MOST_BYTES)
        parts = [data[at : at + most] for at in range(0, len(data), most)]
        return b"".join((len(part) << 1 | 1).to_bytes(HEADER_BYTES, "little") + part for part in parts)

    def _block(self, part: bytes) -> bytes:
        try:
            return decompress(_CODECS[self.kind], memoryview(part), SizeLimit(self.size, "")).tobytes()
        except CorruptDataError:
            raise CorruptDataError("one of its messages cannot be decompressed") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise CorruptDataError("one of its messages is broken")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _as_varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
