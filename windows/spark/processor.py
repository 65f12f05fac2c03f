"""The operator of ``tidegate.windows`` as a stateful processor of Spark, whose keys are buckets of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StructType

from tidegate.add_ons import END_OF_TIME_MS, freeze_imports, in_one_sentence
from tidegate.errors import OptionError
from tidegate.spark_private import print_nothing, to_arrow_schema
from tidegate.windows import Trigger, WindowOperator
from tidegate.windows.key_run import KeyRun
from tidegate.windows.rows import as_mappings, listed
from tidegate.windows.spark.buckets import BUCKETS, NUMBER, ROWS, TASK, WITNESS, described_buckets, unpacked
from tidegate.windows.spark.columns.windows import ColumnWindows, Outcome
from tidegate.windows.spark.keys import Key, codes_of, keys_of, values_of
from tidegate.windows.spark.pages import EVENT, NEVER, PROCESSING
from tidegate.windows.spark.results import Given, check_output, checked
from tidegate.windows.spark.state import BucketState, KeyBucket, Layout
from tidegate.windows.window import MAX_TIME, MIN_TIME

TIME = "__time"
TimeMode: TypeAlias = Literal["EventTime", "ProcessingTime", "None"]
WINDOW_START, WINDOW_END = "window_start", "window_end"
OUTPUT, RESULTS = "output", "results"
CALL = "__call"
"""Marks a bookkeeping row, one per call of a bucket."""
CALL_COLUMNS = "bucket int, dropped bigint, windows bigint, due bigint"
"""Its fields: how many late rows were dropped, how many windows are open, and when the
first timer is due, in ms (null without one)."""
MANY = "__many"
"""The column of a row that holds many results, with an array for each column of keys, windows and results.

PySpark takes some microseconds to make a row of one result, and some ten nanoseconds for a value of an array.
"""
_RESULTS_OF_A_ROW = 4_096
_VALUE = "__value"


def row_column(output: str) -> str:
    """Return the column with the rows of a side output."""
    return f"{output}_row"


def many_names(count: int) -> list[str]:
    """Return the names of the arrays of ``MANY``, and of the columns with their values."""
    return [f"{MANY}_{place}" for place in range(count)]


@dataclass(frozen=True)
class ProcessorSettings:
    """What the processor of some windows needs to know.

    description: the parts of the user's windows on which the state depends, by their names.
    buckets: how many the user wants; None: as Spark's shuffle partitions need.
    keys: the columns of the key, and their names in results.
    elements: the columns that functions read.
    results: the Arrow types of the function's columns, by name.
    late: the name of the output of late rows; None: late rows are dropped.
    outputs: the Arrow types of the columns of each side output of the process function.
    ahead_ms: how far Spark's watermark is ahead of the sources'.  None: no row is the result of a stateful step, or no
        result of the operator depends on the watermark.
    texts: the aggregates of SQL as the user wrote them, by the function's columns; empty for a function in Python.
    in_columns: whether windows are kept in columns, and their results come many at once.

    Results of a stateful step come before the watermark that made them due, as in Flink, so such rows are late only
    behind the watermark of the batch before, and buckets keep that watermark.
    """

    operator: WindowOperator
    description: Mapping[str, str]
    buckets: int | None
    packed: StructType
    keys: Mapping[str, str]
    elements: tuple[str, ...]
    results: Mapping[str, pa.DataType]
    late: str | None
    late_columns: tuple[str, ...]
    outputs: Mapping[str, Mapping[str, pa.DataType]]
    has_event_times: bool
    ahead_ms: int | None
    time_mode: TimeMode
    texts: Mapping[str, str] = field(default_factory=dict)
    in_columns: bool = False


class _Result(dict[str, Any]):
    """A row of results; PySpark takes its values by name."""

    def asDict(self, recursive: bool = False) -> dict[str, Any]:  # noqa: FBT002, N802 - PySpark's
        return self


class WindowProcessor(StatefulProcessor):
    """Hands each bucket's rows and timers to the operator, key by key."""

    def __init__(self, settings: ProcessorSettings) -> None:
        self._settings = settings

    def __setstate__(self, state: dict[str, Any]) -> None:
        print_nothing()
        self.__dict__.update(state)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get ready for the buckets of one task."""
        freeze_imports()
        settings = self._settings
        rows = to_arrow_schema(settings.packed, timezone="UTC")
        keys = [*settings.keys.values()]
        self._columns = None
        layout = Layout(_schema_of_keys(rows, keys), keys, has_chunks=True)
        if settings.in_columns:
            self._columns = ColumnWindows(settings.operator, keys, TIME, settings.elements, rows, self._checked)
            layout = Layout(self._columns.schema, keys, has_chunks=False)
        self._layout = layout
        description = {**settings.description, BUCKETS: described_buckets(settings.buckets)}
        self._state = BucketState(handle, description, layout)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Take the rows of a bucket."""
        if key[0] == WITNESS:
            return self._witnessed()
        # Spark does not order the rows of different tasks.
        in_order = sorted(rows, key=lambda row: (row[TASK], row[NUMBER]))
        return self._run(key[0], [row[ROWS] for row in in_order], timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Advance the times of a bucket without rows."""
        return self._run(key[0], [], timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def _witnessed(self) -> Iterator[Any]:
        """Refuse state of other windows, and leave a description for the next run."""
        with in_one_sentence():
            self._state.store(self._state.load(), None, is_witness=True)
        yield from ()

    def _run(self, number: int, blobs: list[bytes], times: TimerValues, expired_ms: int | None = None) -> Iterator[Any]:
        with in_one_sentence():
            yield from self._results(number, blobs, times, expired_ms)

    def _results(self, number: int, blobs: list[bytes], times: TimerValues, expired_ms: int | None) -> Iterator[Any]:
        bucket = self._state.load(expired_ms)
        spark_ms, now_ms = times.getCurrentWatermarkInMs(), times.getCurrentProcessingTimeInMs()
        before_rows_ms, watermark_ms = self._watermarks(bucket, spark_ms)
        rows = unpacked(blobs, self._settings.packed) if blobs else None
        state = bucket.pages.touched(rows, max(before_rows_ms, watermark_ms), now_ms)
        if self._columns is not None:
            outcome = self._columns.run(state, rows, before_rows_ms, watermark_ms, now_ms)
            late = yield from self._of_columns(self._columns, bucket, state, outcome)
        else:
            late = yield from self._of_keys(bucket, state, rows, before_rows_ms, watermark_ms, now_ms)
        dropped = late if self._settings.late is None else 0
        due = min((time for time in bucket.pages.next_timers() if time is not None), default=None)
        yield _Result({CALL: {"bucket": number, "dropped": dropped, "windows": bucket.windows, "due": due}})
        self._state.store(bucket, _next_call(bucket, self._settings, spark_ms, now_ms))

    def _of_columns(
        self, windows: ColumnWindows, bucket: KeyBucket, state: pa.Table, outcome: Outcome
    ) -> Generator[Any, None, int]:
        """Keep and give what windows in columns became; return the number of late rows."""
        bucket.pages.replace(outcome.state)
        bucket.windows += outcome.state.num_rows - state.num_rows
        for fired in outcome.fired:
            yield from self._rows_of(None, fired) if isinstance(fired, list) else self._many(windows, fired)
        for key, row in outcome.late:
            yield from self._late_rows(key, [row])
        return len(outcome.late)

    def _many(self, windows: ColumnWindows, fired: pa.Table) -> Iterator[_Result]:
        settings = self._settings
        given = windows.results(fired, settings.results)
        results = (listed(given[name]) for name in settings.results)
        columns = [*(values_of(fired.column(key)) for key in settings.keys.values()), *windows.bounds(fired), *results]
        for begin in range(0, fired.num_rows, _RESULTS_OF_A_ROW):
            parts = (column[begin : begin + _RESULTS_OF_A_ROW] for column in columns)
            yield _Result({MANY: dict(zip(many_names(len(columns)), parts, strict=True))})

    def _of_keys(
        self, bucket: KeyBucket, state: pa.Table, rows: pa.Table | None, before: int, after: int, now_ms: int
    ) -> Generator[Any, None, int]:
        """Hand rows to the operator, key by key; return the number of late rows."""
        settings = self._settings
        entries = _entries_of(state, [*settings.keys.values()])
        arrived = _by_key(rows, settings) if rows is not None and rows.num_rows else {}
        given: dict[str | None, list[Given]] = defaultdict(list)
        late = opened = 0
        for key in dict.fromkeys([*_due(entries, after, now_ms), *arrived]):
            entry = entries.get(key)
            store = self._state.of_key(key, None if entry is None else entry.value)
            run = KeyRun(settings.operator, key[0] if len(key) == 1 else key, store, now_ms)
            opened -= run.stored_windows
            run.advance_watermark(before)
            run.advance_processing_time(now_ms)
            if key in arrived:
                run.process_elements(*arrived[key])
            run.advance_watermark(after)
            for fired in run.results:
                given[fired.output].append(Given(key, fired.window, fired.value))
            late += len(run.late)
            yield from self._late_rows(key, run.late)
            timers = run.next_event_timer(), run.next_processing_timer()
            self._check_timers(*timers)
            run.close()
            opened += run.stored_windows
            if store.value is None:
                entries.pop(key, None)
            else:
                entries[key] = KeyEntry(*timers, store.value)
        for output, values in given.items():
            yield from self._rows_of(output, values)
        bucket.pages.replace(_table_of(entries, self._layout.schema))
        bucket.windows += opened
        return late

    def _late_rows(self, key: Key, rows: list[Mapping[str, Any]]) -> Iterator[_Result]:
        settings = self._settings
        if settings.late is not None:
            for row in rows:
                late_row = {name: row[name] for name in settings.late_columns}
                yield _Result({**_named(settings, key), OUTPUT: settings.late, row_column(settings.late): late_row})

    def _rows_of(self, output: str | None, given: list[Given]) -> Iterator[_Result]:
        """Return what functions gave to a side output; None: the results."""
        settings = self._settings
        if output is None:
            named = {OUTPUT: RESULTS} if settings.late is not None or settings.outputs else {}
            for one, values in zip(given, self._checked(given), strict=True):
                yield _Result({**_named(settings, one.key), **_bounds(one.window), **named, **values})
            return
        check_output(output, settings.outputs)
        for one, values in zip(given, checked(given, settings.outputs[output], (), {}), strict=True):
            yield _Result(
                {**_named(settings, one.key), **_bounds(one.window), OUTPUT: output, row_column(output): dict(values)}
            )

    def _checked(self, given: list[Given]) -> list[Mapping[str, Any]]:
        """Return the values of results.  Raises FunctionError for one that does not fit its type."""
        return checked(given, self._settings.results, self._settings.keys, self._settings.texts)

    def _watermarks(self, bucket: KeyBucket, spark_ms: int) -> tuple[int, int]:
        """Return the watermark before the rows of the batch, and the one after them; ``ProcessorSettings`` says why."""
        if self._settings.ahead_ms is None:
            watermark_ms = _watermark(spark_ms, 0)
            return watermark_ms, watermark_ms
        before_rows_ms = MIN_TIME if bucket.watermark_ms is None else bucket.watermark_ms
        bucket.watermark_ms = _watermark(spark_ms, self._settings.ahead_ms)
        return before_rows_ms, bucket.watermark_ms

    def _check_timers(self, event_timer: int | None, processing_timer: int | None) -> None:
        """Raise OptionError for a timer in a kind of time in which Spark would not call these windows."""
        if processing_timer is not None and self._settings.time_mode != "ProcessingTime":
            trigger = _name_of_innermost(self._settings.operator.trigger)
            raise OptionError(f"{trigger} has a timer in processing time: say so by {trigger}.processing_time = True")
        if event_timer is not None and not self._settings.has_event_times:
            trigger = _name_of_innermost(self._settings.operator.trigger)
            raise OptionError(f"{trigger} has a timer in event time: name it, as windowed(..., event_time='...')")


class KeyEntry(NamedTuple):
    """The state of one key without chunks of rows; times in ms."""

    event_timer: int | None
    processing_timer: int | None
    value: bytes


def _schema_of_keys(rows: pa.Schema, keys: list[str]) -> pa.Schema:
    """Return the columns of the state of windows that are kept key by key: a row for each key."""
    times = [pa.field(name, pa.int64()) for name in (EVENT, PROCESSING)]
    return pa.schema([*(rows.field(key) for key in keys), *times, pa.field(_VALUE, pa.binary())])


def _table_of(entries: Mapping[Key, KeyEntry], schema: pa.Schema) -> pa.Table:
    """Return a row for each key, in the columns of ``_schema_of_keys``."""
    keys: list[Sequence[Any]] = [*zip(*entries, strict=True)] if entries else [()] * (len(schema) - 3)
    times = [
        [NEVER if time is None else min(time, NEVER - 1) for time in (entry[kind] for entry in entries.values())]
        for kind in (0, 1)
    ]
    columns = [*keys, *times, [entry.value for entry in entries.values()]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _entries_of(state: pa.Table, keys: list[str]) -> dict[Key, KeyEntry]:
    """Return the rows of ``_table_of`` by key."""
    timers = ([None if time == NEVER else time for time in listed(state.column(name))] for name in (EVENT, PROCESSING))
    entries = map(KeyEntry, *timers, listed(state.column(_VALUE)))
    return dict(zip(keys_of(state, keys), entries, strict=True))


def _due(entries: Mapping[Key, KeyEntry], event_ms: int, processing_ms: int) -> list[Key]:
    """Return the keys with a timer at or before one of these times."""
    return [
        key
        for key, (event, processing, _) in entries.items()
        if (event is not None and event <= event_ms) or (processing is not None and processing <= processing_ms)
    ]


def _named(settings: ProcessorSettings, key: Key) -> dict[str, Any]:
    return dict(zip(settings.keys, key, strict=True))


def _name_of_innermost(trigger: Trigger) -> str:
    """Return the name of the class that registers a trigger's timers: other triggers may be around it."""
    nested = getattr(trigger, "nested", None)
    return type(trigger).__name__ if nested is None else _name_of_innermost(nested)


def _by_key(table: pa.Table, settings: ProcessorSettings) -> dict[Key, tuple[Any, npt.NDArray[np.int64]]]:
    """Return rows and event times by key, in the order in which the rows came."""
    codes = codes_of(table.column(column) for column in settings.keys.values())
    order = np.argsort(codes, kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = np.append(begins[1:], len(order)).tolist()
    times = ordered.column(TIME).to_numpy()
    firsts = ordered.select(list(settings.keys.values())).take(pa.array(begins))
    keys = keys_of(firsts, firsts.column_names)
    elements = ordered.select(list(settings.elements))
    if len(begins) * 32 > len(order):  # with few rows per key, slicing a list is faster than slicing Arrow
        elements = as_mappings(elements)
        return {k: (elements[b:e], times[b:e]) for k, b, e in zip(keys, begins.tolist(), ends, strict=True)}
    return {k: (elements.slice(b, e - b), times[b:e]) for k, b, e in zip(keys, begins.tolist(), ends, strict=True)}


def _watermark(spark_ms: int, ahead_ms: int) -> int:
    """Return Spark's watermark as the operator has it: 0 without one, and Spark's last one is the end of time."""
    if spark_ms <= 0:
        return MIN_TIME
    return MAX_TIME if spark_ms >= END_OF_TIME_MS else spark_ms - ahead_ms


def _next_call(bucket: KeyBucket, settings: ProcessorSettings, spark_ms: int, now_ms: int) -> int | None:
    """Return the time of Spark's next call; it is later than now, or Spark would call again in this batch."""
    if settings.time_mode == "None":
        return None  # only rows make these windows fire
    event, processing = bucket.pages.next_timers()
    if settings.ahead_ms is not None and spark_ms < END_OF_TIME_MS:
        event = MIN_TIME  # the bucket needs every watermark
    if settings.time_mode == "EventTime":
        if event is None or spark_ms >= END_OF_TIME_MS:  # no watermark comes after the last one
            return None
        return min(max(event, spark_ms + 1), END_OF_TIME_MS)
    if event is not None:
        return now_ms + 1  # in the next batch, which may have another watermark
    return None if processing is None else max(processing, now_ms + 1)


def _bounds(window: Any) -> dict[str, int | None]:
    if window.start is None:
        return {WINDOW_START: None, WINDOW_END: None}
    return {WINDOW_START: window.start * 1000, WINDOW_END: window.end * 1000}
