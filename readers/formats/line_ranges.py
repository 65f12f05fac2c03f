r"""Reads the lines of an object: the lines of a range of its bytes, or those of its decompressed content.

A line belongs to the range that holds its first byte (Hadoop: LineRecordReader).  So ranges that cover an object
without gaps give each line once.  Lines end with ``\n`` or ``\r\n``.  The last line may end with the object.  A byte
order mark is no part of the first line.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.objects.file import ObjectFile

Fetch: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes of an object from a start to an end, exclusive."""

T = TypeVar("T")

LONGEST_LINE = 256 * 2**20
_LOOK_AHEAD = 16 * 1024  # most last lines end within these bytes after the range; that spares a second request
_BLANK = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_UNREADABLE = (".snappy", ".deflate", ".xz")


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


def fetched_ahead(blocks: Iterator[T]) -> Generator[T, None, None]:
    """Yield the blocks, while a thread fetches the next one; a caller that stops early waits for the thread."""
    with ThreadPoolExecutor(1, "tidegate-lines") as thread:
        coming = thread.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = thread.submit(next, blocks, None)
            yield block


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
    CorruptDataError for data that cannot be decompressed; errors of ``fetch`` pass.
    """
    whole = io.BufferedReader(ObjectFile(size, fetch, block_bytes), block_bytes)
    with pa.PythonFile(whole, "r") as raw, pa.CompressedInputStream(raw, codec) as text:
        while True:
            try:
                piece = text.read(block_bytes)
            except OSError as error:
                raise CorruptDataError(f"{name}: cannot decompress it by {codec}: {error}") from None
            if not piece:
                return
            yield piece


def _block(offset: int, data: bytes) -> LineBlock:
    if offset == 0 and data.startswith(_BYTE_ORDER_MARK):
        return LineBlock(len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :])
    return LineBlock(offset, data)
