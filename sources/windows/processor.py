"""The operator of ``tidegate.windows`` as a stateful processor of Spark, whose keys are buckets of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import DoubleType, FloatType, StructType

from tidegate.errors import ContractError, OptionError
from tidegate.readers.worker_memory import freeze_imports
from tidegate.sources.sentences import in_one_sentence
from tidegate.sources.tasks import END_OF_TIME_MS
from tidegate.sources.windows.folding import Folded, fold, folds
from tidegate.sources.windows.packing import NUMBER, ROWS, TASK, WITNESS, unpacked
from tidegate.sources.windows.results import Given, checked
from tidegate.sources.windows.state import Bucket, BucketState, Key, KeyEntry
from tidegate.windows import WindowOperator
from tidegate.windows.window import MAX_TIME, MIN_TIME

__all__ = ["LATE_ROW", "OUTPUT", "RESULTS", "TIME", "WINDOW_END", "WINDOW_START", "WindowProcessor", "Wish"]

TIME = "__time"
_NAN = float("nan")
_Entry = TypeVar("_Entry")
TimeMode: TypeAlias = Literal["EventTime", "ProcessingTime", "None"]
WINDOW_START, WINDOW_END = "window_start", "window_end"
OUTPUT, RESULTS, LATE_ROW = "output", "results", "late_row"


@dataclass(frozen=True)
class Wish:
    """The task of a processor.

    operator: the windows.
    description: of all by which its state depends on the user's wish, by names of the parts.
    packed: the columns of the rows that come.
    keys: the columns by which windows are kept, and what they are called in results.
    elements: the columns that functions see.
    results: the columns that its function gives, by name, in the types of Arrow.
    late: the name of the output of late rows; None: they are dropped.
    late_columns: of a late row.
    time_mode: of Spark's timers.
    """

    operator: WindowOperator
    description: Mapping[str, str]
    packed: StructType
    keys: Mapping[str, str]
    elements: tuple[str, ...]
    results: Mapping[str, pa.DataType]
    late: str | None
    late_columns: tuple[str, ...]
    time_mode: TimeMode


class _Result:
    """A row of results, of which PySpark takes the values by name."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def asDict(self, recursive: bool = False) -> dict[str, Any]:  # noqa: ARG002, FBT002, N802 - PySpark's
        return self.values


class WindowProcessor(StatefulProcessor):
    """Hands each bucket's rows and timers to the operator, key by key."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get ready for the buckets of one task."""
        freeze_imports()
        packed = self._wish.packed
        self._float_keys = [
            name for name in self._wish.keys.values() if isinstance(packed[name].dataType, DoubleType | FloatType)
        ]
        self._state = BucketState(handle, self._wish.description)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Take the rows of a bucket."""
        if key[0] == WITNESS:
            return self._witnessed()
        # Spark gives no order to what different tasks send.
        in_order = sorted(rows, key=lambda row: (row[TASK], row[NUMBER]))
        return self._run([row[ROWS] for row in in_order], timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Advance the times of a bucket without rows."""
        return self._run([], timerValues)

    def _witnessed(self) -> Iterator[Any]:
        """Refuse state of other windows, and leave a description for the next run."""
        with in_one_sentence():
            self._state.store(self._state.load(), None, is_witness=True)
        yield from ()

    def _run(self, blobs: list[bytes], times: TimerValues) -> Iterator[Any]:
        with in_one_sentence():
            yield from self._results(blobs, times)

    def _results(self, blobs: list[bytes], times: TimerValues) -> Iterator[Any]:
        wish = self._wish
        bucket = self._state.load()
        bucket.keys = self._by_equal_keys(bucket.keys)
        watermark_ms = _watermark(times.getCurrentWatermarkInMs())
        now_ms = times.getCurrentProcessingTimeInMs()
        arrived, folded = self._arrived(blobs, watermark_ms)
        due = [key for key, entry in bucket.keys.items() if _is_due(entry, watermark_ms, now_ms)]
        given: list[Given] = []
        for key in dict.fromkeys([*due, *folded, *arrived]):
            entry = bucket.keys.get(key) or KeyEntry()
            run = wish.operator.open(key[0] if len(key) == 1 else key, self._state.of_key(key, entry), now_ms)
            run.advance_watermark(watermark_ms)
            run.advance_processing_time(now_ms)
            for window, first, contents in folded.get(key, ()):
                if not run.process_folded(window, first, contents):
                    raise ContractError(f"{type(wish.operator.trigger).__name__} does not take all rows of {window}")
            if key in arrived:
                run.process_elements(*arrived[key])
            named = dict(zip(wish.keys, key, strict=True))
            given += [Given(key, fired.window, fired.value) for fired in run.results]
            for row in run.late if wish.late is not None else ():
                late_row = {name: row[name] for name in wish.late_columns}
                yield _Result({**named, OUTPUT: wish.late, LATE_ROW: late_row})
            entry.event_timer, entry.processing_timer = run.next_event_timer(), run.next_processing_timer()
            if entry.processing_timer is not None and wish.time_mode == "EventTime":
                trigger = type(wish.operator.trigger).__name__
                raise OptionError(
                    f"{trigger} has a timer in processing time: say so by {trigger}.processing_time = True"
                )
            run.close()
            if entry.value is not None:
                bucket.keys[key] = entry
            else:
                bucket.keys.pop(key, None)
        for one, values in zip(given, checked(given, wish.results, wish.keys), strict=True):
            named = dict(zip(wish.keys, one.key, strict=True))
            yield _Result({**named, **_bounds(one.window), **_main(wish), **values})
        self._state.store(bucket, _next_call(bucket, watermark_ms, now_ms, wish.time_mode))

    def _arrived(
        self, blobs: list[bytes], watermark_ms: int
    ) -> tuple[dict[Key, tuple[Any, npt.NDArray[np.int64]]], dict[Key, list[Folded]]]:
        """Return rows by key, and what others were folded into."""
        wish = self._wish
        if not blobs:
            return {}, {}
        table = unpacked(blobs, wish.packed)
        for name in self._float_keys:
            table = table.set_column(table.column_names.index(name), name, _comparable(table.column(name)))
        folded: dict[Key, list[Folded]] = {}
        if folds(wish.operator):
            folded, table = fold(wish.operator, table, [*wish.keys.values()], TIME, watermark_ms)
        arrived = _by_key(table, wish) if table.num_rows else {}
        return self._by_equal_keys(arrived), self._by_equal_keys(folded)

    def _by_equal_keys(self, entries: dict[Key, _Entry]) -> dict[Key, _Entry]:
        """Return entries by keys in which NaN is always the same object, for it is equal to no other."""
        if not self._float_keys:
            return entries
        return {tuple(map(_one_nan, key)): entry for key, entry in entries.items()}


def _comparable(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats of which equal ones have the same bits: as in Spark's groups, -0.0 is 0.0, and NaN is NaN."""
    positive = pc.add(keys, pa.scalar(0.0, keys.type))
    return pc.if_else(pc.is_nan(positive), pa.scalar(_NAN, keys.type), positive)


def _one_nan(value: Any) -> Any:
    return _NAN if isinstance(value, float) and isnan(value) else value


def _main(wish: Wish) -> dict[str, str]:
    return {} if wish.late is None else {OUTPUT: RESULTS}


def _by_key(table: pa.Table, wish: Wish) -> dict[Key, tuple[Any, npt.NDArray[np.int64]]]:
    """Return rows and event times by key, in the order in which the rows came."""
    codes = np.zeros(table.num_rows, np.int64)
    for column in wish.keys.values():
        encoded = table.column(column).combine_chunks().dictionary_encode(null_encoding="encode")
        _, codes = np.unique(codes * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = np.append(begins[1:], len(order)).tolist()
    times = ordered.column(TIME).to_numpy()
    firsts = ordered.select(list(wish.keys.values())).take(pa.array(begins))
    keys = zip(*(column.to_pylist() for column in firsts.columns), strict=True)
    elements = ordered.select(list(wish.elements))
    if len(begins) * 32 > len(order):  # few rows each: as objects they are sooner taken apart
        elements = elements.to_pylist()
        return {k: (elements[b:e], times[b:e]) for k, b, e in zip(keys, begins.tolist(), ends, strict=True)}
    return {k: (elements.slice(b, e - b), times[b:e]) for k, b, e in zip(keys, begins.tolist(), ends, strict=True)}


def _watermark(time_ms: int) -> int:
    """Return the watermark as the operator has it: Spark's is 0 before the first, and has a last one."""
    if time_ms <= 0:
        return MIN_TIME
    return MAX_TIME if time_ms >= END_OF_TIME_MS else time_ms


def _is_due(entry: KeyEntry, watermark_ms: int, now_ms: int) -> bool:
    return (entry.event_timer is not None and entry.event_timer <= watermark_ms) or (
        entry.processing_timer is not None and entry.processing_timer <= now_ms
    )


def _next_call(bucket: Bucket, watermark_ms: int, now_ms: int, time_mode: TimeMode) -> int | None:
    """Return when Spark must call the bucket next: later than now, or Spark would call it in this batch again."""
    event = min((e.event_timer for e in bucket.keys.values() if e.event_timer is not None), default=None)
    if time_mode == "None":
        return None  # nothing but rows makes these windows fire
    if time_mode == "EventTime":
        return None if event is None else min(max(event, watermark_ms + 1, 1), END_OF_TIME_MS)
    processing = min((e.processing_timer for e in bucket.keys.values() if e.processing_timer is not None), default=None)
    if event is not None:
        return now_ms + 1  # with the next batch, which may bring another watermark
    return None if processing is None else max(processing, now_ms + 1)


def _bounds(window: Any) -> dict[str, int | None]:
    if window.start is None:
        return {WINDOW_START: None, WINDOW_END: None}
    return {WINDOW_START: window.start * 1000, WINDOW_END: window.end * 1000}
