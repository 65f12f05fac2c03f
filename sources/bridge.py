"""The one bridge from a Source to PySpark's Python data source API (Spark 4.2+).

The traps in the comments below come from Spark's code or from experiments; docs/spark.md lists them.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from zlib import crc32

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType, TimestampType

from tidegate.alignment.budget import Budget
from tidegate.alignment.generators import GeneratorSupplier
from tidegate.alignment.plan import Limits
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import Json
from tidegate.enumerators.events.server import EventServer
from tidegate.enumerators.notes.application import BadRecordNote, application_notes
from tidegate.enumerators.notes.folder import ProgressNote
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.assigner import TaskSizes
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.generated import ReaderFeed, no_events, watermarks_before
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, Offset
from tidegate.enumerators.planning.pace import BATCHES, BatchPace
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.errors import ContractError, OptionError
from tidegate.readers.contract import ReadTask, TimedRows
from tidegate.readers.events.event import EventChannel, SourceEvent, Watching, timed_reader
from tidegate.sources.add_on import AddOn
from tidegate.sources.contract import group_of
from tidegate.sources.environments import pickled
from tidegate.sources.options import in_one_sentence
from tidegate.sources.tasks import (
    ADD_ON_WATERMARK,
    END_OF_TIME_MS,
    SOURCE_WATERMARK,
    TaskPartition,
    check_is_added,
    nullable,
    read_task,
    setting_aside,
    shown_watermark_ms,
)
from tidegate.spark_private import end_quietly, from_arrow_schema

if TYPE_CHECKING:
    from tidegate.sources.contract import SourceContract

    Build: TypeAlias = Callable[[Mapping[str, str]], SourceContract]


_LOG = logging.getLogger("tidegate.planner")
_EVERYTHING = 2**63 - 1
_BUILDS: dict[str, Build] = {}  # the sources that this process registered, by name


@dataclass(frozen=True)
class Driver:
    """Facts about the driver that the planner process cannot find out itself.

    cores: how many tasks run at once.
    host: the name or address at which executors reach the driver.
    bind_address: the address at which the driver listens; None: the host's.
    """

    cores: int
    application_id: str
    host: str = "127.0.0.1"
    bind_address: str | None = None


def schema_of(source: SourceContract) -> StructType:
    """Return the columns of a source as a Spark schema.

    If some rows hold only the watermark, any column may be null.
    """
    schema = source.arrow_schema
    if source.source_watermark != "none":
        check_is_added(schema.names)
        schema = schema.append(pa.field(SOURCE_WATERMARK, pa.timestamp("us", "UTC")))
    if source.source_watermark == "rows":
        schema = nullable(schema)
    return from_arrow_schema(schema)


def _of_source(source: SourceContract, schema: StructType) -> StructType:
    """Return the columns of the source itself, without that of its watermark.

    Raises OptionError for a schema of the user that lacks this column, which each row has at its end, or forbids nulls.
    """
    if source.source_watermark == "none":
        return schema
    if [(f.name, f.dataType, f.nullable) for f in schema.fields[-1:]] != [(SOURCE_WATERMARK, TimestampType(), True)]:
        raise OptionError(
            f"sourceWatermark is {source.source_watermark!r}, which adds a column, so the given schema has to end with "
            f"{SOURCE_WATERMARK} TIMESTAMP"
        )
    if source.source_watermark == "rows" and not all(field.nullable for field in schema.fields):
        raise OptionError("sourceWatermark is 'rows', whose own rows are null but for it, so no column may be NOT NULL")
    check_is_added(schema.names[:-1])
    return StructType(schema.fields[:-1])


def data_source_class(name: str, build: Build, driver: Driver) -> type[DataSource]:
    """Return a class that ``spark.dataSource.register`` takes.

    The class is created here, so that it is pickled by value, with everything that ``build`` holds.
    """
    _BUILDS[name] = build

    class TidegateDataSource(DataSource):
        def __init__(self, options: Mapping[str, str]) -> None:
            end_quietly()
            own = dict(options)
            asked = own.pop(AddOn.option, None)
            self.add_on = None if asked is None else AddOn.of_text(asked)
            # A wrong option fails here, at load(); inside streamReader() Spark would lose the message.
            with in_one_sentence():
                self.source = _built(name, build, own)
                self.source.settle()
                if self.add_on is not None:
                    check_has_watermarks(self.source, self.add_on)

        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            with in_one_sentence():
                return schema_of(self.source)

        def reader(self, schema: StructType) -> DataSourceReader:
            with in_one_sentence():
                return _BatchReader(self.source.with_schema(_of_source(self.source, schema)).as_batch(), driver)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's
            return _StreamReader(self.source, schema, driver, self.add_on)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002 - PySpark's
            with in_one_sentence():
                raise OptionError(f"{name} only reads; write with another format, such as kafka or parquet")

        streamWriter: Any = writer  # noqa: N815 - PySpark's

        def __reduce__(self) -> Any:
            return pickled(self)

    return TidegateDataSource


def _built(name: str, build: Build, options: Mapping[str, str]) -> SourceContract:
    # Spark creates a table of a Python source with more options than are given, and reads it without any (trap).
    no_table = f"Spark reads a table of CREATE TABLE without its options: use CREATE TEMPORARY VIEW ... USING {name}"
    if options.get("provider", "").lower() == name:
        raise OptionError(no_table)
    try:
        return build(options)
    except OptionError as error:
        raise error if options else OptionError(f"{error}; if this is a table: {no_table}") from None


def source_of(name: str, options: Mapping[str, str]) -> SourceContract | None:
    """Return the source that Spark would load under a name; None: this process has not registered that name.

    Raises OptionError for options that Spark would refuse when it loads the source, or only when a query begins.
    """
    build = _BUILDS.get(name)
    return None if build is None else build(options)


def check_has_watermarks(source: SourceContract, add_on: AddOn) -> None:
    """Raise OptionError for a source without watermarks, because an add-on needs them."""
    if not source.has_watermarks:
        raise OptionError(f"{add_on.name} go by the source's watermark, but the source has no watermarks")


def coordinator_of(
    source: SourceContract,
    driver: Driver,
    group: GroupFolder | None = None,
    pace: BatchPace | None = None,
    clocks: Clocks = REAL_CLOCKS,
    take_events: Callable[[str], Collection[SourceEvent]] = no_events,
    *,
    add_on: AddOn | None = None,
) -> SourceCoordinator:
    """Return the coordinator of a run of a source.  It opens nothing before it is first asked.

    take_events: returns the source events about a subject since its last call for that subject.
    """

    def read_timed(task: ReadTask, state: Json | None) -> TimedRows:
        reader = source.reader(state)
        if source.sets_bad_records_aside:
            reader = setting_aside(source.connector, reader).without_writing()
        return timed_reader(source.connector, reader).read_timed(task)

    return SourceCoordinator(
        source.connector,
        source.enumerator,
        CoordinatorSettings(
            source.watermarks,
            Limits(
                aligned=source.alignment != "none",
                by_completeness=source.has_completeness,
                fail_on_data_loss=source.fail_on_data_loss,
                late_splits=source.late_splits,
            ),
            TaskSizes(source.min_partitions, source.max_positions_per_task),
            event_times=source.event_time_policy,
            discovery_interval_s=source.discovery_interval.total_seconds(),
            max_trigger_delay_s=source.max_trigger_delay.total_seconds(),
            counts_bad_records=source.sets_bad_records_aside,
            spark_follows_watermark=add_on is not None or source.source_watermark != "none",
            options_digest=f"{crc32(repr(source).encode()):08x}",  # as repr() shows them, without secrets
            add_ons={} if add_on is None or add_on.state is None else {add_on.name: add_on.state},
        ),
        driver.cores,
        group=group,
        pace=pace,
        clocks=clocks,
        feed=ReaderFeed(read_timed, take_events),
    )


class _BatchReader(DataSourceReader):
    def __init__(self, source: SourceContract, driver: Driver) -> None:
        self._source, self._driver = source, driver

    def __reduce__(self) -> Any:
        return pickled(self)

    def partitions(self) -> list[InputPartition]:
        with in_one_sentence(), closing(coordinator_of(self._source, self._driver)) as coordinator:
            tasks, state = coordinator.everything()
        # An empty list would become one partition None (trap); an empty task reads nothing.
        return [TaskPartition(task, state) for task in tasks or [ReadTask(())]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._source, cast("TaskPartition", partition))


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in the planner process; executors have a copy that plans nothing."""

    def __init__(self, source: SourceContract, schema: StructType, driver: Driver, add_on: AddOn | None) -> None:
        self._loaded, self._driver, self._add_on = source, driver, add_on
        self._schema = schema if add_on is None else add_on.schema
        self._columns = None if add_on is None else schema.names
        self._planner: SourceCoordinator | None = None
        self._supplier: GeneratorSupplier | None = None
        self._events: EventServer | None = None
        self._progress_note: ProgressNote | None = None
        self._bad_records: BadRecordNote | None = None
        self._group: GroupFolder | None = None

    def __reduce__(self) -> Any:
        return pickled(self)

    @cached_property
    def _source(self) -> SourceContract:
        # This is not in the constructor: Spark would lose the message of an error inside streamReader().
        return self._loaded.with_schema(_of_source(self._loaded, self._schema))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # Called twice in one run, and again until batch 0 is committed (trap): a constant, without I/O.
        return INITIAL_OFFSET

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # With ReadAllAvailable, latestOffset could not tell Trigger.Once from no limit.  Spark takes only one limit
        # here, and gives it back for any other trigger; so latestOffset applies the source's own limits.
        return ReadMaxRows(_EVERYTHING)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with in_one_sentence():
            self._coordinator().bound_run()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with in_one_sentence():
            coordinator = self._coordinator()
        budget, min_rows = self._source.budget, self._source.min_rows
        if isinstance(limit, ReadAllAvailable):
            budget, min_rows = Budget(), 0
            if self._source.watermarks.max_drift is not None:
                _LOG.warning("Trigger.Once reads one batch, up to the max drift only; use Trigger.AvailableNow")
        elif limit != self.getDefaultReadLimit():
            raise ContractError(f"Spark asks for an unknown read limit: {limit!r}")
        with in_one_sentence():
            offset = coordinator.latest_offset(start, budget, min_rows)
        progress = coordinator.source_progress()
        self._note().write(progress)
        if self._group is not None and self._source.watermarks.group_location is not None:
            self._group.show(progress)
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with in_one_sentence():
            before, after = (Offset.from_json(offset, self._source.connector) for offset in (start, end))
            tasks = self._coordinator().tasks_between(before, after)
        if self._bad_records is not None:
            self._bad_records.begin(start, end, after.bad_records)
        before_ms, after_ms = shown_watermark_ms(before), shown_watermark_ms(after)
        watermarks_ms = watermark_row_ms = {SOURCE_WATERMARK: after_ms}
        if self._add_on is not None:
            ahead_ms = self._add_on.ahead_ms
            watermark_row_ms = {**watermarks_ms, ADD_ON_WATERMARK: _later(after_ms, ahead_ms)}
            watermarks_ms = {**watermarks_ms, ADD_ON_WATERMARK: _later(before_ms, ahead_ms)}
        adds_row = self._has_watermark_rows and after_ms != before_ms
        # The row goes with an existing task, because each task costs time; later tasks do not repeat it.
        return [
            TaskPartition(
                task,
                after.enumerator,
                watermarks_ms,
                watermark_row_ms=watermark_row_ms if adds_row and number == 0 else None,
                watching=self._watching(after, task),
                channel=self._channel,
            )
            for number, task in enumerate(tasks or [ReadTask(())] * adds_row)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        stage = None if self._add_on is None else self._add_on.row_stage()
        batches = read_task(self._source, cast("TaskPartition", partition), stage)
        return batches if self._columns is None else (batch.select(self._columns) for batch in batches)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        progress = None if self._planner is None else self._planner.source_progress()
        if progress is None:
            return None
        about = {"planner": self._note().planner_id, "reads": self._source.reads}
        is_true = {
            "watermarkRows": self._has_watermark_rows,
            "skipsLost": not self._source.fail_on_data_loss,
            "selectsRows": self._source.selects_rows,
        }
        if self._add_on is not None and self._add_on.stage is not None:
            about["rowStage"] = self._add_on.stage.about
        return {**progress, **about, **{name: True for name, is_so in is_true.items() if is_so}}

    @property
    def _has_watermark_rows(self) -> bool:
        return self._source.source_watermark == "rows" or self._add_on is not None

    def stop(self) -> None:
        if self._planner is not None:
            # The connection ends first: otherwise SIGTERM would interrupt the closing planner.
            signal.signal(signal.SIGTERM, lambda *_: None)
            self._planner.close()
            if self._events is not None:
                self._events.close()
            self._note().remove()

    def _pace(self) -> BatchPace | None:
        target = self._source.target_batch_duration
        if target is None:
            return None
        notes, name = application_notes(self._driver.application_id).within(BATCHES), self._note().planner_id
        return BatchPace(target.total_seconds(), lambda: notes.read(name))

    def _note(self) -> ProgressNote:
        if self._progress_note is None:
            application = application_notes(self._driver.application_id)
            self._progress_note = ProgressNote(application, self._source.connector, self._source.reads)
        return self._progress_note

    def _coordinator(self) -> SourceCoordinator:
        if self._planner is None:
            # Spark ends this process with SIGTERM, and stop() is called only if that raises (trap).
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            _log_to_stderr(self._loaded.log_level)
            source = self._source.as_stream()
            self._supplier = source.watermarks.generator
            if self._supplier is not None or source.sets_bad_records_aside:
                note = BadRecordNote(self._note().planner_id) if source.sets_bad_records_aside else None
                self._events = _listening(self._driver, note)
                self._bad_records = note if self._events is not None else None
            self._group = group_of(source, self._driver.application_id)
            self._planner = coordinator_of(
                source,
                self._driver,
                self._group,
                self._pace(),
                take_events=no_events if self._events is None else self._events.take,
                add_on=self._add_on,
            )
        return self._planner

    @property
    def _channel(self) -> EventChannel | None:
        return None if self._events is None else self._events.channel

    def _watching(self, after: Offset, task: ReadTask) -> Watching | None:
        if self._supplier is None or self._events is None:
            return None
        return Watching(
            self._supplier,
            watermarks_before(after.generators, task, self._supplier),
            self._coordinator().batch,
            after.progress.watermark_ms,
        )


def _later(time_ms: int | None, by_ms: int) -> int | None:
    return None if time_ms is None else min(time_ms + by_ms, END_OF_TIME_MS)


def _listening(driver: Driver, note: BadRecordNote | None) -> EventServer | None:
    hear = list if note is None else note.add
    try:
        return EventServer(driver.host, driver.bind_address, hear)
    except OSError as error:
        _LOG.warning(
            "no source events can be taken at %s: %s; the planner reads the rows for watermark generators itself, and "
            "bad records are not counted",
            driver.bind_address or driver.host,
            error,
        )
        return None


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("tidegate")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
