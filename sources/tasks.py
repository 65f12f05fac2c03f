"""Tasks on their way from the planner to executors: reading them there, with columns of watermarks."""

from __future__ import annotations

import resource
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import ContractError, OptionError, OutOfMemoryError
from tidegate.readers.arrow.arrays import repeated
from tidegate.readers.contract import ReadTask, SplitReader, SupportsBadRecords
from tidegate.readers.events.event import BAD_RECORDS, EventChannel, SourceEvent, Watching, send, timed_reader, watched
from tidegate.sources.options import in_one_sentence
from tidegate.sources.worker_daemon import freeze_imports

if TYPE_CHECKING:
    from tidegate.sources.add_on import RowStage
    from tidegate.sources.contract import SourceContract


SOURCE_WATERMARK = "source_watermark"
ADD_ON_WATERMARK = "__watermark"
"""A column for add-ons, such as windows.

In rows of data it is the watermark at the start of the batch, and shows which rows are late.  In the watermark row it
is the watermark at the end, and moves Spark's watermark.  A second column would cost time in every row.
"""
END_OF_TIME_MS = 253_402_300_799_999
"""Spark's last timestamp, in the year 9999: the watermark of a source whose splits are all at their ends."""
WATERMARK_ROW_US = 1
"""Added to the watermark in rows with only the watermark, so that no row of data looks like one of them.

Watermarks are whole milliseconds, and Spark rounds down to milliseconds.
"""
_BEGIN_OF_TIME_MS = -62_135_596_800_000
"""Spark's first timestamp, in the year 1."""


class TaskPartition(InputPartition):
    """A task on its way to an executor.

    watermarks_ms: the source's watermarks, by the columns of rows that may have them.
    watermark_row_ms: the same for a row with only the watermark, with which the task begins.
    channel: the channel to the coordinator for events of generators and numbers of bad records.
    """

    def __init__(
        self,
        task: ReadTask,
        state: Json | None,
        watermarks_ms: Mapping[str, int | None] | None = None,
        *,
        watermark_row_ms: Mapping[str, int | None] | None = None,
        watching: Watching | None = None,
        channel: EventChannel | None = None,
    ) -> None:
        self.task, self.state, self.watching, self.channel = task, state, watching, channel
        self.watermarks_ms, self.watermark_row_ms = watermarks_ms or {}, watermark_row_ms


@contextmanager
def _memory_named() -> Iterator[None]:
    """Name the option that limits the memory of a task, where it is limited."""
    try:
        yield
    except MemoryError as error:
        if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
            raise
        raise OutOfMemoryError(f"a task {OutOfMemoryError()}") from error


def read_task(
    source: SourceContract, partition: TaskPartition, stage: RowStage | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, or what a stage makes of them, with the columns of watermarks.

    Called on an executor.
    """
    freeze_imports()
    with in_one_sentence(), _memory_named():
        names = [SOURCE_WATERMARK] if source.source_watermark != "none" else []
        if ADD_ON_WATERMARK in partition.watermarks_ms:
            names.append(ADD_ON_WATERMARK)
        may_be_null = source.source_watermark == "rows" or ADD_ON_WATERMARK in partition.watermarks_ms
        if partition.watermark_row_ms is not None:
            schema = nullable(source.arrow_schema if stage is None else stage.schema)
            nothing = pa.record_batch([pa.nulls(1, field.type) for field in schema], schema=schema)
            yield _with_watermarks(nothing, names, partition.watermark_row_ms, WATERMARK_ROW_US)
        reader, watching = source.reader(partition.state), partition.watching
        counting = setting_aside(source.connector, reader) if source.sets_bad_records_aside else None
        batches = reader.read(partition.task)
        events: list[SourceEvent] = []
        if watching is not None:
            batches = watched(timed_reader(source.connector, reader), watching, partition.task, events)
        if stage is not None:
            batches = stage.rows(batches, partition.watermarks_ms.get(ADD_ON_WATERMARK))
        for rows in batches:
            batch = pa.record_batch(rows.columns, schema=nullable(rows.schema)) if may_be_null else rows
            yield _with_watermarks(batch, names, partition.watermarks_ms)
        if partition.channel is None:
            return
        if counting is not None:
            counts = counting.bad_records.items()
            events += [SourceEvent(r.split_id, r.start, r.end, {"number": n}, BAD_RECORDS) for r, n in counts if n]
        send(partition.channel, events)


def check_is_added(names: Collection[str]) -> None:
    """Raise OptionError if a source whose rows get its watermark has a column of that name itself."""
    if SOURCE_WATERMARK in names:
        raise OptionError(
            f"sourceWatermark adds the column {SOURCE_WATERMARK!r}, but the source has one of that name already: leave "
            "one of them out"
        )


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which any column may be null, as in rows with only the watermark."""
    return pa.schema([field.with_nullable(nullable=True) for field in schema], schema.metadata)


def setting_aside(connector: str, reader: SplitReader) -> SupportsBadRecords:
    """Return a reader as one that sets bad records aside.  Raises ContractError if it does not."""
    if not isinstance(reader, SupportsBadRecords):
        raise ContractError(
            f"the source {connector!r} sets bad records aside, but its reader has no bad_records and without_writing()"
        )
    return reader


def _with_watermarks(
    batch: pa.RecordBatch, names: Sequence[str], watermarks_ms: Mapping[str, int | None], mark_us: int = 0
) -> pa.RecordBatch:
    for name in names:
        batch = batch.append_column(name, _constant_timestamp(watermarks_ms.get(name), mark_us, batch.num_rows))
    return batch


def _constant_timestamp(time_ms: int | None, added_us: int, rows: int) -> pa.Array:
    kind = pa.timestamp("us", "UTC")
    return pa.nulls(rows, kind) if time_ms is None else repeated(time_ms * 1000 + added_us, kind, rows)


def shown_watermark_ms(offset: Offset) -> int | None:
    """Return the watermark of an offset within the range of Spark's timestamps."""
    progress = offset.progress
    if progress.ended or progress.watermark_ms is None:
        return END_OF_TIME_MS if progress.ended else None
    # A generator may return times that are out of the range of Spark's timestamps.
    return min(max(progress.watermark_ms, _BEGIN_OF_TIME_MS), END_OF_TIME_MS)
