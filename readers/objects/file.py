"""The bytes of an object: as a file with random access, and in pieces that are fetched ahead."""

from __future__ import annotations

import io
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

    fetch: returns the bytes from a start to an end, exclusive; threads call it, too.  Reading raises its errors.
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
