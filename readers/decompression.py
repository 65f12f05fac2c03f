"""Decompresses whole blocks within a limit of memory.

A few bytes may stand for gigabytes, by accident or on purpose, so every codec writes into a buffer of bounded size, or
is stopped at the bound.  If a block declares its size, that is compared with the bound first.
"""

from __future__ import annotations

import functools
import lzma
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import cramjam
import numpy as np
import numpy.typing as npt

from tidegate.errors import CorruptDataError, OutOfMemoryError

Bytes: TypeAlias = "npt.NDArray[np.uint8]"

DEFAULT_MOST_BYTES = 256 << 20
_LARGEST_MOST_BYTES = 1 << 40  # machines have less memory, and every codec takes this number
_LONGEST_NUMBER = 20  # digits
_LEAST_ROOM = 8 << 10
_USUAL_RATIO = 4  # most blocks grow less than so many times
_FILE_RATIO = 16  # blocks of files have many similar rows

# A buffer that was too small grows so many times.  It does not begin at the bound, since a limit of memory counts all
# of a buffer.
_GROWTH = 4

_NO_ROOM = "failed to write whole buffer"  # a message of Rust's standard library
_NO_MEMORY = ("out of memory", "not enough memory", "allocation_failed")  # messages of Rust, zstd and LZ4
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16


def parse_most_bytes(value: Any) -> int:
    """Read the option's value, a number of bytes; raises ValueError for any other value."""
    text = str(value).strip()
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else 0
    if not 0 < number <= _LARGEST_MOST_BYTES:
        raise ValueError(f"expected a whole number of bytes above 0, up to {_LARGEST_MOST_BYTES}")
    return number


class SizeLimit(NamedTuple):
    """The maximum size of a decompressed block in bytes, and the option that sets it."""

    bytes: int
    option: str

    def require(self, size: int) -> None:
        """Raise CorruptDataError for a larger size; the sentence lacks its subject, see ``about``."""
        if size > self.bytes:
            raise CorruptDataError(
                f"takes more than {self.bytes} bytes decompressed; if it is sound, raise {self.option}"
            )


@contextmanager
def about(subject: str) -> Iterator[None]:
    """Put the subject before the sentence of a CorruptDataError or an OutOfMemoryError."""
    try:
        yield
    except (CorruptDataError, OutOfMemoryError) as problem:
        raise type(problem)(f"{subject} {problem}") from None


def decompress(codec: str, block: memoryview, bound: SizeLimit) -> Bytes:
    """Return the decompressed block, as a read-only array.

    codec: ``gzip``, ``lz4`` (frames), ``zstd``, ``snappy`` (one raw block), ``xerial``,
        ``deflate`` (without a header), ``bzip2`` or ``xz``.  ``xerial`` is raw snappy blocks in the framing of
        snappy-java, or one block without it.

    Raises CorruptDataError if the block is damaged or larger than the bound, and OutOfMemoryError.  Both sentences lack
    their subject.
    """
    try:
        data = _DECOMPRESS[codec](block, bound)
    except MemoryError:
        raise OutOfMemoryError from None
    except (cramjam.DecompressionError, lzma.LZMAError, EOFError, struct.error) as problem:
        if is_lack_of_memory(problem):
            raise OutOfMemoryError from None
        raise CorruptDataError(f"cannot be decompressed by {codec}: {problem}") from None
    data.flags.writeable = False  # Numba would compile its loops again for writable arrays
    return data


def is_lack_of_memory(problem: Exception) -> bool:
    """Return whether a codec failed for want of memory, which cramjam and Arrow tell from damage by its words alone."""
    return any(words in str(problem) for words in _NO_MEMORY)


def _by_room(
    into: Callable[[Any, Any], int], block: memoryview, bound: SizeLimit, *, ratio: int = _USUAL_RATIO
) -> Bytes:
    # The system provides memory only for the parts of a buffer that are written.
    size = min(max(_LEAST_ROOM, ratio * len(block)), bound.bytes)
    while True:
        room = np.empty(size, np.uint8)
        try:
            return room[: into(block, room.data)]
        except cramjam.DecompressionError as problem:
            if _NO_ROOM not in str(problem):
                raise
        bound.require(size + 1)
        del room
        size = min(_GROWTH * size, bound.bytes)


def _snappy(block: memoryview, bound: SizeLimit) -> Bytes:
    return _snappy_blocks([block], bound)


def _xerial(block: memoryview, bound: SizeLimit) -> Bytes:
    if block[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy(block, bound)
    parts = []
    at = _XERIAL_HEADER_SIZE
    while at < len(block):
        (length,) = struct.unpack_from(">I", block, at)
        at += 4
        parts.append(block[at : at + length])
        at += length
    return _snappy_blocks(parts, bound)


def _snappy_blocks(blocks: list[memoryview], bound: SizeLimit) -> Bytes:
    sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    bound.require(sum(sizes))
    room = np.empty(sum(sizes), np.uint8)
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        cramjam.snappy.decompress_raw_into(block, room[at : at + size].data)
        at += size
    return room


def _xz(block: memoryview, bound: SizeLimit) -> Bytes:
    parts: list[bytes] = []
    left = bound.bytes
    while block or not parts:
        stream = lzma.LZMADecompressor()
        parts.append(stream.decompress(block, left + 1))
        left -= len(parts[-1])
        bound.require(bound.bytes - left)
        if not stream.eof:
            raise EOFError("it ends too early")
        block = memoryview(stream.unused_data)
    return np.frombuffer(b"".join(parts), np.uint8)


_DECOMPRESS: Mapping[str, Callable[[memoryview, SizeLimit], Bytes]] = {
    "gzip": functools.partial(_by_room, cramjam.gzip.decompress_into),
    "lz4": functools.partial(_by_room, cramjam.lz4.decompress_into),
    "zstd": functools.partial(_by_room, cramjam.zstd.decompress_into),
    "snappy": _snappy,
    "xerial": _xerial,
    "deflate": functools.partial(_by_room, cramjam.deflate.decompress_into, ratio=_FILE_RATIO),
    "bzip2": functools.partial(_by_room, cramjam.bzip2.decompress_into, ratio=_FILE_RATIO),
    "xz": _xz,
}
