"""Reads the blocks of an Avro object container file, of all its bytes or of a range.

A file is a header, then blocks of records (Avro specification 1.12: object container files).  The file's sync marker of
16 bytes follows the header and each block.  A block belongs to the range that holds its first byte, which follows a
marker, so ranges that cover an object without gaps give each block once.

The block_reader of fastavro 1.13 does not serve here: it begins only at the header of a file, so it cannot read a
range.  It decompresses a block of any length: 200 KB become 200 MiB.  fastavro decodes the records; see ``records.py``.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import fastavro

from tidegate.errors import CorruptDataError
from tidegate.readers.decompression import SizeLimit, about, decompress
from tidegate.readers.objects.file import Fetch, fetched_ahead, other_format

SYNC_BYTES = 16
MAGIC = b"Obj\x01"
HEADER_BYTES = 64 << 10  # bytes of the first request: most headers are smaller
MOST_HEADER_BYTES = 16 << 20
LOOK_AHEAD = 64 << 10  # beyond a range's end, where most last blocks end; saves a second request
LONGEST_NUMBER = 10  # bytes of a 64-bit number
CODECS = {
    "null": None,
    "deflate": "deflate",
    "snappy": "snappy",
    "zstandard": "zstd",
    "bzip2": "bzip2",
    "xz": "xz",
}
"""The names of the codecs elsewhere in tidegate."""
CHECKSUM_BYTES = 4  # after a block that is compressed by snappy

_HEADER_SCHEMA = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": SYNC_BYTES}},
    ],
}


class AvroHeader(NamedTuple):
    """The header of a file.

    schema: the schema of its records, as the writer's JSON value.
    end: the first byte after the header.
    keys: what else the writer says of the file, by name.
    """

    schema: Any
    codec: str
    sync: bytes
    end: int
    keys: Mapping[str, bytes]


class AvroBlock(NamedTuple):
    """Some records, decompressed, and their range in the object, including the marker after it."""

    start: int
    end: int
    rows: int
    data: bytes | memoryview


def read_header(fetch: Fetch, size: int) -> AvroHeader:
    """Return the header of an object of ``size`` bytes.

    Raises CorruptDataError for an object without Avro's header; errors of ``fetch`` pass.
    """
    length = HEADER_BYTES
    while True:
        # A number in a damaged header is of no harm: BytesIO gives no more bytes than it has.
        head = io.BytesIO(fetch(0, min(length, size)))
        if not head.getvalue().startswith(MAGIC):
            raise CorruptDataError(f"it does not begin as Avro does{other_format(head.getvalue())}")
        try:
            fields: Any = fastavro.schemaless_reader(head, _HEADER_SCHEMA, None)
            break
        except (EOFError, LookupError, ValueError):
            if length >= min(size, MOST_HEADER_BYTES):
                raise CorruptDataError("it ends within its header, or that is broken") from None
            length *= 16
    meta = fields["meta"]
    codec = meta.get("avro.codec", b"null").decode(errors="replace")
    if codec not in CODECS:
        raise CorruptDataError(f"its codec is {codec!r}; readable are {', '.join(CODECS)}")
    try:
        schema = json.loads(meta["avro.schema"])
    except (KeyError, ValueError):
        raise CorruptDataError("its header has no schema") from None
    except RecursionError:
        raise CorruptDataError("the schema in its header is nested too deeply") from None
    return AvroHeader(schema, codec, fields["sync"], head.tell(), meta)


def blocks_of(
    fetch: Fetch, size: int, header: AvroHeader, start: int, end: int, *, request_bytes: int, bound: SizeLimit
) -> Iterator[AvroBlock]:
    """Yield the blocks that begin in ``[start, end)``, in order.

    Asks for at most ``request_bytes`` at once, while a thread asks for the next ones, and for no byte twice.  Holds as
    much, or the longest block if it is longer.

    Raises CorruptDataError for a block that is cut off, has no marker after it, cannot be decompressed or becomes too
    large.  The error names the byte.  Errors of ``fetch`` pass.
    """
    begin = max(start, header.end) - SYNC_BYTES  # a marker that ends at the start counts
    stop = min(end + LOOK_AHEAD, size)
    if begin >= min(end, size):
        return
    part_bytes = -(-(stop - begin) // -(-(stop - begin) // request_bytes))  # even parts
    parts = (fetch(at, min(at + part_bytes, stop)) for at in range(begin, stop, part_bytes))
    if stop - begin > part_bytes:
        parts = fetched_ahead(parts)
    with closing(parts), io.BufferedReader(_Parts(parts, begin, fetch, size, request_bytes), LOOK_AHEAD) as stream:
        if not _skips_past(header.sync, stream, end):
            return
        while stream.tell() < min(end, size):
            yield _block(stream, header, size, bound)


class _Parts(io.RawIOBase):
    """The bytes of an object from a position on: parts that arrive in order, and then what is asked for."""

    def __init__(self, parts: Iterator[bytes], position: int, fetch: Fetch, size: int, request_bytes: int) -> None:
        super().__init__()
        self._parts, self._fetch, self._size, self._request_bytes = parts, fetch, size, request_bytes
        self._position = position
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte to read."""
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed names the buffer's protocol since 3.12
        """Fill the begin of ``buffer``, and return the number of bytes; 0 only at the end."""
        if not self._left:
            self._left = memoryview(next(self._parts, b"") or self._beyond(len(buffer)))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        self._position += count
        return count

    def _beyond(self, wanted: int) -> bytes:
        end = min(self._position + min(wanted, self._request_bytes), self._size)
        return self._fetch(self._position, end) if end > self._position else b""


def _block(stream: io.BufferedReader[_Parts], header: AvroHeader, size: int, bound: SizeLimit) -> AvroBlock:
    start = stream.tell()
    with about(f"the block at byte {start}"):
        rows, length = _number(stream), _number(stream)
        if rows < 0 or length < 0:
            raise CorruptDataError(f"says that it has {rows} records in {length} bytes")
        end = stream.tell() + length + SYNC_BYTES
        if end > size:  # raised before the rest is fetched in vain
            raise CorruptDataError("is cut off")
        bound.require(length)
        data = stream.read(length)
        if stream.read(SYNC_BYTES) != header.sync:
            raise CorruptDataError("does not end with the marker of the file")
        return AvroBlock(start, end, rows, _decompressed(header.codec, data, bound))


def _number(stream: io.BufferedReader[_Parts]) -> int:
    """Return the next number, of variable length."""
    value = 0
    for digit in range(LONGEST_NUMBER):
        byte = stream.read(1)
        if not byte:
            raise CorruptDataError("is cut off")
        value |= (byte[0] & 0x7F) << 7 * digit
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
    raise CorruptDataError("does not begin as one")


def _skips_past(marker: bytes, stream: io.BufferedReader[_Parts], end: int) -> bool:
    """Go past the next marker, and return whether there is one that ends before ``end``."""
    data = b""
    while stream.tell() < end and (piece := stream.peek()):
        place = (data + piece).find(marker)
        if place >= 0:
            stream.read(place + len(marker) - len(data))
            return stream.tell() < end
        stream.read(len(piece))
        data = (data + piece)[1 - len(marker) :]
    return False


def _decompressed(codec: str, data: bytes, bound: SizeLimit) -> bytes | memoryview:
    name = CODECS[codec]
    if name is None:
        return data
    if name != "snappy":
        return decompress(name, memoryview(data), bound).data
    content = decompress(name, memoryview(data)[:-CHECKSUM_BYTES], bound).data
    if zlib.crc32(content) != int.from_bytes(data[-CHECKSUM_BYTES:], "big"):
        raise CorruptDataError("has a checksum that does not fit")
    return content
