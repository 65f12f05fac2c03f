"""The keys of a bucket in pages of some kilobytes: a batch reads and writes the pages of the keys that it touches.

The pages grow and shrink by linear hashing (Litwin 1980), one page after the other, so there is no directory.  What is
due is found without reading pages: a block holds the first timers of its pages, and the bucket those of its blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidegate.windows.window import MAX_TIME

__all__ = ["KeyEntry", "PageStore", "Pages"]

_MEAN = 4_000  # bytes of a page on average: pages that were not split yet have twice as much as the others
_BLOCK = 256  # pages of a block
_NEVER = MAX_TIME
_ENTRY = struct.Struct("<IIBqq")  # bytes of key and value, which timers there are, and their times
_NO_PAGE = b""


@dataclass(slots=True)
class KeyEntry:
    """The state of one key.

    event_timer, processing_timer: the times of its first timers, in ms.
    value: the operator's state of the key, without chunks of rows; None: there is none.
    """

    event_timer: int | None = None
    processing_timer: int | None = None
    value: bytes | None = None


class PageStore(Protocol):
    """Keeps pages and blocks."""

    def read(self, kind: bytes, number: int) -> bytes | None:
        """Return a page or block; None: it is empty."""

    def write(self, kind: bytes, number: int, value: bytes | None) -> None:
        """Store a page or block that was read before, or is new; None: it is empty."""


@dataclass(slots=True)
class _Page:
    entries: dict[bytes, KeyEntry]
    read: bytes  # as it is stored
    held: int  # bytes of its entries, as counted in the size of all pages


class Pages:
    """The keys of one bucket during a batch.

    Attributes:
    count, size: the number of pages, and the bytes of their entries, of which a large one counts only in part.
    first_timers: for each block, the first timers of its pages: in event time and in processing time, in ms.

    """

    def __init__(self, store: PageStore, count: int, size: int, first_timers: list[list[int]]) -> None:
        self._store = store
        self.count, self.size, self.first_timers = count, size, first_timers
        self._pages: dict[int, _Page] = {}
        self._blocks: dict[int, npt.NDArray[np.int64]] = {}

    def get(self, key: bytes) -> KeyEntry | None:
        """Return the state of a key; None: it has none."""
        return self._page(self._number(key)).entries.get(key)

    def put(self, key: bytes, entry: KeyEntry) -> None:
        """Set the state of a key; without a value, it is removed."""
        entries = self._page(self._number(key)).entries
        if entry.value is not None:
            entries[key] = entry
        else:
            entries.pop(key, None)

    def due(self, event_ms: int, processing_ms: int) -> Iterator[bytes]:
        """Yield the keys with a timer at or before one of these times, as of the last ``flush``."""
        limits = np.array([event_ms, processing_ms])
        for number, first in enumerate(self.first_timers):
            if first[0] > event_ms and first[1] > processing_ms:
                continue
            for place in np.flatnonzero((self._block(number) <= limits).any(axis=1)).tolist():
                for key, entry in self._page(number * _BLOCK + place).entries.items():
                    event, processing = entry.event_timer, entry.processing_timer
                    if (event is not None and event <= event_ms) or (
                        processing is not None and processing <= processing_ms
                    ):
                        yield key

    def next_timers(self) -> tuple[int | None, int | None]:
        """Return the first timers of all keys, after ``flush``: in event time and in processing time; None: none."""
        event, processing = (min(times) for times in zip(*self.first_timers, [_NEVER, _NEVER], strict=True))
        return None if event == _NEVER else event, None if processing == _NEVER else processing

    def flush(self) -> None:
        """Store all changes.  The pages become more or fewer, so that each has some kilobytes."""
        for page in self._pages.values():
            self._count(page)
        while self.size > self.count * _MEAN:
            self._split()
        while self.count > 1 and self.size < self.count * _MEAN // 4:
            self._merge()
        for number, page in self._pages.items():
            blob = _to_bytes(page.entries)
            if blob != page.read:
                self._store.write(b"page", number, blob or None)
                page.read = blob
            self._note_timers(number, page)
        for number, block in self._blocks.items():
            self._store_block(number, block)
        del self.first_timers[-(-self.count // _BLOCK) :]

    def _count(self, page: _Page) -> None:
        held = _held(page.entries)
        self.size += held - page.held
        page.held = held

    def _split(self) -> None:
        """Add a page, which takes half of the keys of another."""
        new = self.count
        old = self._page(new - (1 << new.bit_length() - 1))
        self.count += 1
        added = self._pages[new] = _Page({}, _NO_PAGE, 0)
        for key in [key for key in old.entries if self._number(key) == new]:
            added.entries[key] = old.entries.pop(key)
        self._count(old)
        self._count(added)

    def _merge(self) -> None:
        """Empty the last page into the one from which it was split."""
        if not self.size:  # all pages are empty
            self.count = 1
            return
        self.count -= 1
        last = self._page(self.count)
        into = self._page(self.count - (1 << self.count.bit_length() - 1))
        into.entries.update(last.entries)
        last.entries = {}
        self._count(last)
        self._count(into)

    def _number(self, key: bytes) -> int:
        digest = int.from_bytes(blake2b(key, digest_size=8).digest(), "little")
        bits = (self.count - 1).bit_length()
        number = digest & ((1 << bits) - 1)
        return number if number < self.count else number & ((1 << bits - 1) - 1)

    def _page(self, number: int) -> _Page:
        page = self._pages.get(number)
        if page is None:
            blob = self._store.read(b"page", number) or _NO_PAGE
            entries = dict(_of_bytes(blob))
            page = self._pages[number] = _Page(entries, blob, _held(entries))
        return page

    def _block(self, number: int) -> npt.NDArray[np.int64]:
        block = self._blocks.get(number)
        if block is None:
            blob = self._store.read(b"due", number)
            block = np.full((_BLOCK, 2), _NEVER) if blob is None else np.frombuffer(blob, "<i8").reshape(-1, 2).copy()
            self._blocks[number] = block
            while len(self.first_timers) <= number:
                self.first_timers.append([_NEVER, _NEVER])
        return block

    def _note_timers(self, number: int, page: _Page) -> None:
        times = ((entry.event_timer, entry.processing_timer) for entry in page.entries.values())
        firsts = [
            min((min(time, _NEVER - 1) for time in of_kind if time is not None), default=_NEVER)
            for of_kind in zip(*times, strict=True)
        ]
        self._block(number // _BLOCK)[number % _BLOCK] = firsts or _NEVER

    def _store_block(self, number: int, block: npt.NDArray[np.int64]) -> None:
        blob = block.astype("<i8").tobytes()
        is_empty = bool((block == _NEVER).all())
        if is_empty or blob != self._store.read(b"due", number):
            self._store.write(b"due", number, None if is_empty else blob)
        self.first_timers[number] = block.min(axis=0).tolist()


def _held(entries: dict[bytes, KeyEntry]) -> int:
    """Return the bytes of entries, for the number of pages: more pages would not help one large entry."""
    return sum(min(_ENTRY.size + len(key) + len(entry.value or b""), _MEAN) for key, entry in entries.items())


def _to_bytes(entries: dict[bytes, KeyEntry]) -> bytes:
    parts: list[bytes] = []
    for key, entry in entries.items():
        value, event, processing = entry.value or b"", entry.event_timer, entry.processing_timer
        timers = (event is not None) + 2 * (processing is not None)
        parts += (_ENTRY.pack(len(key), len(value), timers, event or 0, processing or 0), key, value)
    return b"".join(parts)


def _of_bytes(blob: bytes) -> Iterator[tuple[bytes, KeyEntry]]:
    place = 0
    while place < len(blob):
        key_size, value_size, timers, event, processing = _ENTRY.unpack_from(blob, place)
        begin = place + _ENTRY.size + key_size
        place = begin + value_size
        entry = KeyEntry(event if timers & 1 else None, processing if timers & 2 else None, blob[begin:place])
        yield blob[begin - key_size : begin], entry
