r"""Objects that consist of lines, plain or compressed: JSON, CSV and text are read over one cutter of lines.

A line belongs to the range that holds its first byte (Hadoop: LineRecordReader), so ranges that cover an object
without gaps give each line once.  Lines end with ``\n`` or ``\r\n``.  The last line may end with the object.  A byte
order mark does not belong to the first line.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from tidegate.errors import ConnectorError, CorruptDataError, OptionError, OutOfMemoryError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.decompression import is_lack_of_memory
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.surveys import Look, byte_surveys
from tidegate.readers.objects.file import Fetch, ObjectFile, fetched_ahead, other_encoding, other_format
from tidegate.readers.objects.values import Bucket, Chunk, ChunkSurvey, S3Object

BLOCK_BYTES = 8 << 20
SAMPLE_BYTES = 1 << 20
LONGEST_LINE = 256 * 2**20
ROW_BYTES = 256  # the assumed size of a line, if none is read
ROW_BYTES_COMPRESSED = 32
_NUMBER = "^[+-]?[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?$"
_LOOK_AHEAD = 16 * 1024  # most last lines end within these bytes after the range; that spares a second request
_BLANK = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_UNREADABLE = (".snappy", ".deflate", ".xz")
_LARGE_WINDOW = "requires too much memory"  # a message of the zstd library, whose windows have at most 128 MiB


class LineBlock(NamedTuple):
    """Consecutive whole lines, and the offset of the first one."""

    offset: int
    data: bytes


def range_blocks(name: str, fetch: Fetch, size: int, start: int, end: int, *, block_bytes: int) -> Iterator[LineBlock]:
    """Yield the lines that begin in ``[start, end)``, in order, about ``block_bytes`` at a time.

    A block is longer only if a single line is.  A request is for ``block_bytes`` and a little more, so a range up to
    that size usually takes one request.

    Raises CorruptDataError for a line of more than 256 MiB; errors of ``fetch`` pass.
    """
    pieces = _to_last_line(_from_first_line(_pieces(fetch, size, start, end, block_bytes), start, end), end)
    for first, piece in pieces:
        yield from stream_blocks(name, chain([piece], (later for _, later in pieces)), first)


def _pieces(fetch: Fetch, size: int, start: int, end: int, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of the object, from the byte before ``start`` to its end; callers stop at the end of a line."""
    look_ahead = min(_LOOK_AHEAD, block_bytes)
    at = max(start - 1, 0)
    while at < size:
        stop = at + block_bytes
        if at < end <= stop + look_ahead:
            stop = end + look_ahead
        yield at, fetch(at, min(stop, size))
        at = stop


def _from_first_line(pieces: Iterator[tuple[int, bytes]], start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Leave out the bytes before the first line that begins in ``[start, end)``; without such a line, all bytes."""
    if start > 0:
        # A line begins at the start if the byte before it ends a line.
        for at, piece in pieces:
            begin = piece.find(b"\n") + 1
            if begin and at + begin < end:
                yield at + begin, piece[begin:]
                break
            if begin or at + len(piece) >= end:
                return
    yield from pieces


def _to_last_line(pieces: Iterator[tuple[int, bytes]], end: int) -> Iterator[tuple[int, bytes]]:
    """Leave out the bytes after the last line that begins before ``end``."""
    for at, piece in pieces:
        length = piece.find(b"\n", max(end - 1 - at, 0)) + 1 if at + len(piece) >= end else 0
        yield at, piece[:length] if length else piece
        if length:
            return


def stream_blocks(name: str, pieces: Iterable[bytes], offset: int = 0) -> Iterator[LineBlock]:
    """Yield all lines of a text that arrives in pieces, about a piece at a time.

    offset: the offset of the first piece.

    Raises CorruptDataError for a line of more than 256 MiB; errors of ``pieces`` pass.
    """
    unfinished: list[bytes] = []
    for piece in pieces:
        length = piece.rfind(b"\n") + 1
        if length:
            data = b"".join([*unfinished, piece[:length]])
            yield _block(offset, data)
            offset += len(data)
            unfinished = []
        if length < len(piece):
            unfinished.append(piece[length:])
        if sum(map(len, unfinished)) > LONGEST_LINE:
            raise CorruptDataError(f"{name}: the line at byte {offset} is longer than {LONGEST_LINE // 2**20} MiB")
    if unfinished:
        yield _block(offset, b"".join(unfinished))


@dataclass(frozen=True, slots=True)
class LineObject:
    """An object that consists of lines.

    A plain one is cut into chunks at any byte; a line belongs to the chunk that holds its first byte.  A compressed one
    (by its suffix: .gz, .zst, .bz2, .lz4) is one chunk.
    """

    store: Bucket
    obj: S3Object

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.store.address(self.obj.key)

    @property
    def codec(self) -> str | None:
        """Arrow's name of its codec, see compression_of; None: it is not compressed."""
        return compression_of(self.name)

    def fetch(self, start: int, end: int) -> bytes:
        """Return the bytes of a range.  Raises CorruptDataError if they begin as something else than text in UTF-8."""
        data = self.store.fetch(self.obj, start, end)
        if start == 0 and self.codec is None:
            _require_text(self.name, data)
        return data

    def blocks(self, start: int, end: int, block_bytes: int) -> Iterator[LineBlock]:
        """Yield the lines that begin in a range, about ``block_bytes`` at a time; all lines if it is compressed."""
        if self.codec is not None:
            return stream_blocks(self.name, self.pieces(block_bytes))
        return range_blocks(self.name, self.fetch, self.obj.size, start, end, block_bytes=block_bytes)

    def chunk_blocks(self, chunk: Chunk, block_bytes: int) -> Iterator[LineBlock]:
        """Yield the blocks of a chunk; the next one is fetched meanwhile if there are several."""
        blocks = self.blocks(chunk.start, chunk.end, block_bytes)
        return fetched_ahead(blocks) if chunk.end - chunk.start > block_bytes else blocks

    def sampled_blocks(self) -> Iterator[LineBlock]:
        """Yield the lines of the first MiB; a compressed object is streamed a little beyond it."""
        for block in self.blocks(0, min(SAMPLE_BYTES, self.obj.size), SAMPLE_BYTES):
            yield block
            if block.offset + len(block.data) >= SAMPLE_BYTES:
                return

    def pieces(self, block_bytes: int) -> Iterator[bytes]:
        """Yield its decompressed content, at most ``block_bytes`` at a time."""
        codec = self.codec
        if codec is not None:
            yield from decompressed(self.name, self.fetch, self.obj.size, codec, block_bytes=block_bytes)
            return
        for start in range(0, self.obj.size, block_bytes):
            yield self.fetch(start, min(start + block_bytes, self.obj.size))


def survey_lines(item: LineObject, look: Look | None, chunk_bytes: int, *, splits: bool = True) -> list[ChunkSurvey]:
    """Survey an object of lines; see ``byte_surveys``.  It is not cut if it is compressed, or unless it ``splits``."""
    row_bytes = ROW_BYTES_COMPRESSED if item.codec else ROW_BYTES
    return byte_surveys(item.obj.size, chunk_bytes, look, row_bytes=row_bytes, splits=splits and item.codec is None)


def hold_numbers(texts: pa.Array) -> bool:
    """Return whether a text is a number."""
    return bool(pc.any(pc.match_substring_regex(texts, _NUMBER)).as_py())


def line_times(values: pa.Array, unit: TimeUnit | None, column: str, address: str) -> pa.Int64Array:
    """Return the times of texts, or of numbers, in ms since the epoch; null for other values.

    Raises OptionError if a text is a number without a unit.
    """
    if unit is None and hold_numbers(values):
        raise OptionError(
            f"the event-time column {column!r} of {address} holds numbers, so eventTimeUnit must say what they count: "
            "s, ms, us or ns"
        )
    return times_ms(values, unit or "iso8601")


def lines_of(block: LineBlock) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, each with its offset."""
    offset = block.offset
    for line in block.data.split(b"\n"):
        text = line.strip(_BLANK)
        if text:
            yield offset, text
        offset += len(line) + 1


def compression_of(name: str) -> str | None:
    """Return Arrow's name of an object's codec, by the suffix of the object's name; None: it is not compressed.

    Raises CorruptDataError for the suffix of a codec that cannot be read.
    """
    lower = name.lower()
    for suffix, codec in _COMPRESSIONS.items():
        if lower.endswith(suffix):
            return codec
    if lower.endswith(_UNREADABLE):
        raise CorruptDataError(f"{name}: cannot decompress it; readable are {', '.join(_COMPRESSIONS)}")
    return None


def decompressed(name: str, fetch: Fetch, size: int, codec: str, *, block_bytes: int) -> Iterator[bytes]:
    """Yield the decompressed content of an object, ``block_bytes`` at a time.

    The object may have several gzip members or frames.  A request is for at most ``block_bytes``.  Raises
    CorruptDataError for data that cannot be decompressed, or is not text, ConnectorError for a zstd window beyond
    128 MiB, and OutOfMemoryError; errors of ``fetch`` pass.
    """
    whole = io.BufferedReader(ObjectFile(size, fetch, block_bytes), block_bytes)
    is_first = True
    with pa.PythonFile(whole, "r") as raw, pa.CompressedInputStream(raw, codec) as text:
        while True:
            try:
                piece = text.read(block_bytes)
            except OSError as error:
                if _LARGE_WINDOW in str(error):
                    raise ConnectorError(
                        f"{name}: its zstd window is larger than 128 MiB; compress it with a smaller one (--long=27)"
                    ) from None
                if is_lack_of_memory(error):
                    raise OutOfMemoryError(f"{name} {OutOfMemoryError()}") from None
                raise CorruptDataError(f"{name}: cannot decompress it by {codec}: {error}") from None
            if not piece:
                return
            if is_first:
                _require_text(name, piece)
                is_first = False
            yield piece


def _block(offset: int, data: bytes) -> LineBlock:
    if offset == 0 and data.startswith(_BYTE_ORDER_MARK):
        return LineBlock(len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :])
    return LineBlock(offset, data)


def _require_text(name: str, head: bytes) -> None:
    if other := other_format(head):
        raise CorruptDataError(f"{name} holds no lines{other}")
    if encoding := other_encoding(head):
        raise CorruptDataError(
            f"{name} is text in {encoding} by its byte order mark, and only UTF-8 is read: read it as binaryFile, and "
            "decode the content"
        )
