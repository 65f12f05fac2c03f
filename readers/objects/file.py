"""The bytes of an object: as a file with random access, and in pieces that are fetched ahead.

Their beginning also shows an object that is something else than its format and its name say.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar

THREADS = 4

Fetch: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes of an object from a start to an end, exclusive."""

T = TypeVar("T")


def fetched_ahead(pieces: Iterator[T]) -> Generator[T, None, None]:
    """Yield the pieces, while a thread fetches the next one; a caller that stops early waits for the thread."""
    with ThreadPoolExecutor(1, "tidegate-pieces") as thread:
        coming = thread.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = thread.submit(next, pieces, None)
            yield piece


class ObjectFile(io.RawIOBase):
    """The bytes of one version of an object.  Close the file, since it may have threads.

    Threads fetch the ranges that ``hold`` names.  A read fetches any others.

    fetch: returns the bytes from a start to an end, exclusive; threads also call it.  Reading raises its errors.
    part_bytes: the maximum size of one request when ranges are fetched ahead.
    """

    def __init__(self, size: int, fetch: Fetch, part_bytes: int) -> None:
        super().__init__()
        self._size = size
        self._fetch = fetch
        self._part_bytes = part_bytes
        self._position = 0
        self._held: dict[tuple[int, int], Future[bytes]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def hold(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch these ranges now, in this order, and keep them; drop other ranges that were held.

        Returns at once: reading waits for the ranges that it needs.
        """
        parts = [
            (begin, min(begin + self._part_bytes, end))
            for start, end in ranges
            for begin in range(start, end, self._part_bytes)
        ]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "tidegate-object-file")
        before, self._held = self._held, {}
        for part in dict.fromkeys(parts):
            self._held[part] = before.pop(part) if part in before else self._threads.submit(self._fetch, *part)
        for future in before.values():
            future.cancel()

    def close(self) -> None:
        """Drop all ranges; waits for the requests that are under way."""
        self._held = {}
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte to read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position, which may lie beyond the end, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next ``size`` bytes, fewer only at the end; None or a negative size: all bytes that are left."""
        start = self._position
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        if start >= end:
            return b""
        pieces = []
        while self._position < end:
            piece = self._piece(self._position, end)
            pieces.append(piece)
            self._position += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readinto(self, buffer: object) -> int:
        """Fill ``buffer``, and return the number of bytes written to it; fewer than it holds only at the end."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # typeshed names the buffer's protocol since 3.12
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _piece(self, start: int, end: int) -> bytes:
        """Return bytes from ``start`` on: up to the end of the held part there, or up to the next held part."""
        after = end
        for (begin, stop), future in self._held.items():
            if begin <= start < stop:
                whole = future.result()
                return whole if (start, end) == (begin, stop) else whole[start - begin : end - begin]
            if start < begin:
                after = min(after, begin)
        return self._fetch(start, after)


SIGNATURE_BYTES = 64
_FORMATS = {b"PAR1": ("Parquet", "parquet"), b"ORC": ("ORC", "orc"), b"Obj\x01": ("Avro", "avro")}
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # lines may begin with the letters of a signature
_COMPRESSIONS = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
    "zip": re.compile(rb"PK\x03\x04"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18"),
}
# The byte order mark of UTF-32 in little endian begins as that of UTF-16 does.
_ENCODINGS = {"UTF-32": (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"), "UTF-16": (b"\xff\xfe", b"\xfe\xff")}


def other_format(head: bytes) -> str:
    """Return "; it begins as Parquet does: set fileFormat to parquet" and the like by 64 bytes, or nothing."""
    for signature, (name, file_format) in _FORMATS.items():
        if head.startswith(signature) and _NO_TEXT.search(head[:SIGNATURE_BYTES]):
            return f"; it begins as {name} does: set fileFormat to {file_format}"
    for codec, beginning in _COMPRESSIONS.items():
        if beginning.match(head):
            return f"; it begins as {codec} does: only text is read compressed, and if its name ends with the codec's"
    return ""


def other_encoding(head: bytes) -> str | None:
    """Return UTF-16 or UTF-32 if a text begins with a byte order mark of it."""
    return next((name for name, marks in _ENCODINGS.items() if head.startswith(marks)), None)
