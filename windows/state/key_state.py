"""The state of one key during a batch, read on demand and written once: plain values as JSON, and others pickled."""

from __future__ import annotations

import json
import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, TypeAlias

from tidegate.windows.state.store import KeyStore, Timers
from tidegate.windows.window import MIN_TIME, GlobalWindow, TimeWindow, Window

_VERSION = b"\x01"
_DEEPEST = 6  # a value inside so many others is pickled
_INT64 = 1 << 63  # Python does not write numbers of thousands of digits, so those beyond 64 bits are pickled
_JSON = {type(None), bool, float, str}
_WRITE: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    bytes: ("bytes", lambda value: b64encode(value).decode()),
    Decimal: ("decimal", str),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "bytes": b64decode,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "tuple": tuple,
    "dict": dict,
    "pickle": lambda text: pickle.loads(b64decode(text)),  # noqa: S301 - what this module pickled itself
}


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes.  Raises PicklingError for a part that is not plain and cannot be pickled."""
    text = json.dumps(_plain(value, 0), separators=(",", ":"), ensure_ascii=False)
    return _VERSION + text.encode("utf-8", "surrogatepass")  # an escape would make two surrogates one character


def of_bytes(stored: bytes) -> Any:
    """Return the value of bytes."""
    return json.loads(stored[len(_VERSION) :], object_hook=_read)


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _JSON or (kind is int and -_INT64 <= value < _INT64):
        return value
    if depth < _DEEPEST:
        if kind is list:
            return [_plain(item, depth + 1) for item in value]
        if kind is tuple:
            return {"tuple": [_plain(item, depth + 1) for item in value]}
        if kind is dict:
            return {"dict": [[_plain(key, depth + 1), _plain(held, depth + 1)] for key, held in value.items()]}
        if kind in _WRITE and _is_whole(value):
            name, write = _WRITE[kind]
            return {name: write(value)}
    return {"pickle": b64encode(pickled(value)).decode()}


def _is_whole(value: Any) -> bool:
    """Return whether the text of a time has all of it: it has no rules of a time zone, and no fold."""
    zone = getattr(value, "tzinfo", None)
    return (zone is None or zone is timezone.utc) and not getattr(value, "fold", 0)


def pickled(value: Any) -> bytes:
    """Return a value pickled.  Raises PicklingError whatever the value raises."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # a value of the user may raise anything
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _read(held: dict[str, Any]) -> Any:
    ((name, value),) = held.items()
    return _READ[name](value)


_ROWS = "rows"  # a pane whose contents are the chunks of an ElementList

TimedRow: TypeAlias = tuple[int, Any]  # the time of a row in ms, and the row


@dataclass(slots=True)
class ElementList:
    """The rows of a pane in order: numbers of stored chunks, and rows that are not stored yet."""

    chunks: list[int | list[TimedRow]] = field(default_factory=list)

    def add(self, rows: list[TimedRow]) -> None:
        """Add rows at the end."""
        if self.chunks and isinstance(self.chunks[-1], list):
            self.chunks[-1] += rows
        else:
            self.chunks.append(rows)


@dataclass(slots=True)
class PaneState:
    """The state of one window of one key.

    contents: an accumulator, a reduced row, or an ElementList; None: the window is empty, or was purged.
    """

    contents: Any = None
    trigger: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] = field(default_factory=dict)

    def is_bare(self) -> bool:
        """Return whether nothing needs to be kept."""
        return self.contents is None and not self.trigger and not self.function


class KeyState:
    """The state of one key, by window.

    Plain values are stored as JSON.  Others, and chunks of rows, are pickled, so they must be picklable.
    """

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._read = store.read()
        self._panes: dict[Window, PaneState] = {}
        self._dropped: list[int] = []
        self.watermark: int = MIN_TIME
        self.function: dict[str, Any] = {}
        self.merged: dict[Window, TimeWindow] = {}
        """The window under which each merged window's pane is stored."""
        self._stored: dict[tuple[Any, Any], tuple[Any, ...]] = {}  # panes by start and end, by which windows compare
        timers: tuple[list[Any], ...] = ([], [], [])
        self._next_chunk = self._live_chunks = 0
        if self._read is not None:
            stored = of_bytes(self._read)
            self.watermark, self.function, self._next_chunk, self._live_chunks, *timers, panes = stored
            self._stored = panes
        event, processing, pairs = timers
        self.event_timers = Timers([(time, _window(start, end)) for time, start, end in event])
        self.processing_timers = Timers([(time, _window(start, end)) for time, start, end in processing])
        for start, end, stored_start, stored_end in pairs:
            self.merged[TimeWindow(start, end)] = TimeWindow(stored_start, stored_end)

    def pane(self, window: Window) -> PaneState:
        """Return the pane that is stored under a window, or a new pane."""
        pane = self._panes.get(window)
        if pane is None:
            stored = self._stored.get(window)
            pane = self._panes[window] = PaneState() if stored is None else _pane(*stored)
        return pane

    def panes(self) -> Iterator[tuple[Window, PaneState]]:
        """Yield the panes of all open windows, with the window for which each stands."""
        if self.merged:
            yield from ((window, self.pane(stored)) for window, stored in self.merged.items())
            return
        for window in {_window(*window) for window in (*self._stored, *self._panes)}:
            pane = self.pane(window)
            if not pane.is_bare():
                yield window, pane

    @property
    def stored_panes(self) -> int:
        """The number of panes in the store."""
        return len(self._stored)

    def elements(self, contents: ElementList) -> list[TimedRow]:
        """Return all rows of a pane in order."""
        rows: list[TimedRow] = []
        for chunk in contents.chunks:
            if isinstance(chunk, int):
                rows += pickle.loads(self._store.read_rows(chunk))  # noqa: S301 - what this class pickled itself
            else:
                rows += chunk
        return rows

    def clear(self, pane: PaneState) -> None:
        """Clear the contents of a pane, with its stored rows."""
        if isinstance(pane.contents, ElementList):
            self._dropped += [chunk for chunk in pane.contents.chunks if isinstance(chunk, int)]
        pane.contents = None

    def flush(self) -> None:
        """Store all changes.  Raises PicklingError for a value that cannot be pickled."""
        for chunk in self._dropped:
            self._store.write_rows(chunk, None)
        self._live_chunks -= len(self._dropped)
        self._dropped.clear()
        panes = self._stored
        for window, pane in self._panes.items():
            if isinstance(pane.contents, ElementList):
                self._store_rows(pane.contents)
            if pane.is_bare():
                panes.pop(window, None)
            else:
                panes[window.start, window.end] = _stored_pane(pane)
        blob = self._to_bytes(panes)
        if blob != self._read:
            self._store.write(blob)
            self._read = blob

    def _to_bytes(self, panes: dict[tuple[Any, Any], tuple[Any, ...]]) -> bytes | None:
        """Return the state in bytes."""
        event, processing = self.event_timers.entries, self.processing_timers.entries
        if not (event or processing or panes or self.merged or self.function or self._live_chunks):
            return None
        timers = [[(time, *window) for time, window in entries] for entries in (event, processing)]
        pairs = [(*window, *stored) for window, stored in self.merged.items()]
        chunks = (self._next_chunk, self._live_chunks)
        state = (self.watermark, self.function, *chunks, *timers, pairs, panes)
        return to_bytes(state)

    def _store_rows(self, contents: ElementList) -> None:
        for place, chunk in enumerate(contents.chunks):
            if isinstance(chunk, list):
                self._store.write_rows(self._next_chunk, pickled(chunk))
                contents.chunks[place] = self._next_chunk
                self._next_chunk += 1
                self._live_chunks += 1


def _stored_pane(pane: PaneState) -> tuple[Any, ...]:
    """Return a pane as it is stored: without classes of tidegate."""
    if isinstance(pane.contents, ElementList):
        return pane.contents.chunks, pane.trigger, pane.function, _ROWS
    return pane.contents, pane.trigger, pane.function


def _pane(contents: Any, trigger: dict[str, Any], function: dict[str, Any], kind: str | None = None) -> PaneState:
    return PaneState(ElementList(contents) if kind == _ROWS else contents, trigger, function)


def _window(start: int | None, end: int | None) -> Window:
    return GlobalWindow() if start is None or end is None else TimeWindow(start, end)
