"""Reads the blocks of an Avro object container file, of all its bytes or of a range.

A file is a header, then blocks of records (Avro specification 1.12: object container files).  The file's sync marker of
16 bytes follows the header and each block.  A block belongs to the range that holds its first byte, which follows a
marker.  So ranges that cover an object without gaps give each block once.

The block_reader of fastavro 1.13 does not serve here: it begins only at the header of a file, so it cannot read a
range.  It decompresses a block of any length: 200 KB become 200 MiB.  fastavro decodes the records; see ``records.py``.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import fastavro

from tidegate.errors import CorruptDataError
from tidegate.readers.decompression import SizeLimit, about, decompress
from tidegate.readers.formats.line_ranges import Fetch, fetched_ahead
from tidegate.readers.formats.signatures import other_format

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
    """

    schema: Any
    codec: str
    sync: bytes
    end: int


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
    return AvroHeader(schema, codec, fields["sync"], head.tell())


def blocks_of(
    fetch: Fetch, size: int, header: AvroHeader, start: int, end: int, *, request_bytes: int, bound: SizeLimit
) -> Iterator[AvroBlock]:
    """Yield the blocks that begin in ``[start, end)``, in order.

    Asks for ``request_bytes`` at once, while a thread asks for the next ones.  Holds as much, or the longest block if
    it is longer.

    Raises CorruptDataError for a block that is cut off, has no marker after it, cannot be decompressed or becomes too
    large.  The error names the byte.  Errors of ``fetch`` pass.
    """
    begin = max(start, header.end) - SYNC_BYTES  # a marker that ends at the start counts
    stop = min(end + LOOK_AHEAD, size)
    inside = _pieces(fetch, begin, stop, request_bytes)
    if stop - begin > request_bytes:
        inside = fetched_ahead(inside)
    window = _Window(chain(inside, _pieces(fetch, stop, size, LOOK_AHEAD)), begin)
    if not window.skip_past(header.sync, end):
        return
    while window.position < min(end, size):
        yield _block(window, header, size, bound)


def _block(window: _Window, header: AvroHeader, size: int, bound: SizeLimit) -> AvroBlock:
    start = window.position
    try:
        rows, length = window.number(), window.number()
        if rows < 0 or length < 0:
            raise CorruptDataError(f"the block at byte {start} says that it has {rows} records in {length} bytes")
        if length > size - window.position:  # raised before the rest is fetched in vain
            raise CorruptDataError(f"it ends within the block at byte {start}")
        with about(f"the block at byte {start}"):
            bound.require(length)
        data = window.take(length)
        marker = window.take(SYNC_BYTES)
    except EOFError:
        raise CorruptDataError(f"it ends within the block at byte {start}") from None
    if marker != header.sync:
        raise CorruptDataError(f"the block at byte {start} does not end with the marker of the file")
    with about(f"the block at byte {start}"):
        return AvroBlock(start, window.position, rows, _decompressed(header.codec, data, bound))


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


class _Window:
    """Bytes that come in pieces; the bytes before a position are forgotten."""

    def __init__(self, pieces: Iterator[bytes], position: int) -> None:
        self.position = position
        self._pieces = pieces
        self._data = b""
        self._at = 0  # of the position in the data

    def take(self, count: int) -> bytes:
        """Return the next bytes; raises EOFError if there are fewer."""
        while len(self._data) - self._at < count:
            if not self._grow(count):
                raise EOFError
        taken = self._data[self._at : self._at + count]
        self._at += count
        self.position += count
        return taken

    def number(self) -> int:
        """Return the next number, of variable length; raises EOFError, CorruptDataError if it has over 64 bits."""
        start, value = self.position, 0
        for digit in range(LONGEST_NUMBER):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * digit
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise CorruptDataError(f"the block at byte {start} does not begin as one")

    def skip_past(self, marker: bytes, end: int) -> bool:
        """Go past the next marker, and return whether there is one that ends before ``end``."""
        while True:
            place = self._data.find(marker, self._at)
            ahead = (place + len(marker) if place >= 0 else max(len(self._data) - len(marker) + 1, self._at)) - self._at
            self._at += ahead
            self.position += ahead
            if place >= 0 or self.position >= end:
                return place >= 0 and self.position < end
            if not self._grow(0):
                return False

    def _grow(self, wanted: int) -> bool:
        parts = [self._data[self._at :]]
        missing = max(wanted - len(parts[0]), 1)
        for piece in self._pieces:
            parts.append(piece)
            missing -= len(piece)
            if missing <= 0:
                break
        self._data, self._at = b"".join(parts), 0
        return missing <= 0


def _pieces(fetch: Fetch, start: int, end: int, count: int) -> Iterator[bytes]:
    for at in range(start, end, count):
        yield fetch(at, min(at + count, end))
