"""Windows that the operator of ``tidegate.windows`` keeps, behind transformWithState."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import pyarrow as pa
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType, StructField, StructType, TimestampType

from tidegate.add_ons import RECORDS, check_is_frame, sentence_of
from tidegate.errors import OptionError, needing
from tidegate.spark_private import to_arrow_schema
from tidegate.windows import Aggregate, SqlAggregates, WindowFunction, WindowOperator
from tidegate.windows.spark import relations
from tidegate.windows.spark.buckets import BUCKET, packed
from tidegate.windows.spark.columns.windows import ColumnWindows
from tidegate.windows.spark.expressions import Argument, Parts, described_aggregates, described_stream, parts_of
from tidegate.windows.spark.first_stage import Slices
from tidegate.windows.spark.in_source import InSource, Wanted, of_keys_and_time, of_sums, slices_of, way_of
from tidegate.windows.spark.names import check_no_twins, check_result
from tidegate.windows.spark.processor import (
    CALL,
    CALL_COLUMNS,
    MANY,
    OUTPUT,
    RESULTS,
    TIME,
    WINDOW_END,
    WINDOW_START,
    ProcessorSettings,
    TimeMode,
    WindowProcessor,
    many_names,
    row_column,
)
from tidegate.windows.spark.results import count_records, observed

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_KEY = "__key_{}"
COLUMNS = (WINDOW_START, WINDOW_END, OUTPUT)
"""The columns of windows besides keys, results, and the rows of side outputs."""


@dataclass(frozen=True)
class Stream:
    """The rows of windows.

    event_time: the column of event times; None: the windows are in processing time.
    late: the name of the output of late rows; None: late rows are dropped.
    outputs: the columns of each side output of the process function.
    buckets: the number of buckets of keys; None: as Spark's shuffle partitions need.
    """

    rows: DataFrame
    keys: tuple[str, ...]
    event_time: str | None
    late: str | None
    outputs: Mapping[str, StructType]
    buckets: int | None

    @property
    def row_columns(self) -> list[str]:
        """The columns with the rows of side outputs."""
        return [row_column(name) for name in (*([] if self.late is None else [self.late]), *self.outputs)]

    @property
    def key_columns(self) -> dict[str, str]:
        """The columns of the key in rows of windows, by their names in the stream."""
        return {name: _KEY.format(number) for number, name in enumerate(self.keys)}


@dataclass(frozen=True)
class Rows:
    """Rows on their way to the operator.

    elements: the columns that functions read.  schema: all columns.
    made: the rows, or how tasks of the source make them.
    slices: those whose rows tasks of the source sum up; None: none are.
    """

    elements: tuple[str, ...]
    schema: StructType
    made: DataFrame | InSource
    slices: Slices | None = None

    @property
    def way(self) -> str:
        """What tasks of the source do with them, as ``explain`` says it."""
        return way_of(sums=self.slices is not None, packs=isinstance(self.made, InSource))

    def packed(self, stream: Stream) -> DataFrame:
        """Return the rows of each task and bucket, as ``PACKED``."""
        if isinstance(self.made, InSource):
            return count_records(self.made.packed(stream.rows, stream.buckets, self.slices), f.col(RECORDS))
        return packed(self.made, [*stream.key_columns.values()], stream.buckets)


def with_expressions(
    stream: Stream, operator: Callable[[WindowFunction], WindowOperator], expressions: Mapping[str, str]
) -> DataFrame:
    """Return the aggregates of windows, by the operator for a function of a window's rows."""
    parts = parts_of(stream.rows, expressions)
    schema = StructType([StructField(name, parts.types[name]) for name in parts.aggregates])
    windows = operator(Aggregate(parts.function()))
    types = ", ".join(kind.simpleString() for kind in parts.types.values())
    of_aggregates = {**described_aggregates(stream.rows, expressions), "types of the aggregates": types}
    description = {**windows.description, **of_aggregates}
    rows = rows_of(stream, windows, parts)
    if rows.slices is not None:  # they have a column for each aggregate, of the same name
        sums = {name: f"{call.function}({name})" for name, call in parts.function().aggregates.items()}
        windows = operator(Aggregate(SqlAggregates(**sums)))
    kept = _kept(stream, windows, description, rows, schema, parts.texts)
    results = parts.results
    if stream.late is not None:  # a late row has no results, but an expression of no values may be one
        results = {name: f.when(f.col(OUTPUT) == RESULTS, result) for name, result in results.items()}
    named = [result.alias(name) for name, result in results.items()]
    others = [OUTPUT, *(f"`{column}`" for column in stream.row_columns)] if stream.late is not None else []
    return kept.select(*(f"`{key}`" for key in stream.keys), WINDOW_START, WINDOW_END, *named, *others)


def rows_of(stream: Stream, operator: WindowOperator, parts: Parts) -> Rows:
    """Return the rows of windows with aggregates: summed up by tasks of the source if that gives the same."""
    summed = _summed_rows(stream, operator, parts)
    if summed is not None:
        return summed
    arguments = {name: Wanted(argument, parts.kinds[name]) for name, argument in parts.arguments.items()}
    return _each_row(stream, arguments, reads_rows=operator.reads_rows)


def _summed_rows(stream: Stream, operator: WindowOperator, parts: Parts) -> Rows | None:
    slices, sums = slices_of(stream.rows, operator.assigner, operator.trigger), of_sums(parts)
    if slices is None or sums is None or operator.evictor is not None or stream.late is not None:
        return None
    columns = {**of_keys_and_time(stream.rows, stream.key_columns, str(stream.event_time)), **sums}
    in_source = InSource.of(stream.rows, list(stream.key_columns.values()), columns)
    return None if in_source is None else Rows(tuple(sums), in_source.schema, in_source, slices)


def _each_row(stream: Stream, arguments: Mapping[str, Wanted], *, reads_rows: bool) -> Rows:
    """Return the rows of windows, each by itself.

    arguments: the columns that a function reads.  reads_rows: whether anything else reads the columns of rows.
    """
    rows = stream.rows
    carried = rows.columns if stream.late is not None or reads_rows else []
    if carried:
        check_no_twins(rows)
    elements = (*arguments, *carried) or (TIME,)  # without a column Arrow would not know the number of rows
    of_rows = {name: Wanted(Argument(f.col(f"`{name}`")), rows.schema[name].dataType) for name in carried}
    keys = list(stream.key_columns.values())
    if stream.event_time is not None:
        columns = {**of_keys_and_time(rows, stream.key_columns, stream.event_time), **arguments, **of_rows}
        in_source = InSource.of(rows, keys, columns)
        if in_source is not None:
            return Rows(elements, in_source.schema, in_source)
    time = f.lit(0) if stream.event_time is None else f.unix_millis(f.col(f"`{stream.event_time}`").cast("timestamp"))
    prepared = [
        *(f.col(f"`{name}`").alias(column) for name, column in stream.key_columns.items()),
        time.cast("long").alias(TIME),
        *(wanted.argument.of_row().alias(name) for name, wanted in arguments.items()),
        *(f.col(f"`{name}`") for name in carried),
    ]
    if stream.event_time is not None and not relations.has_watermark(rows):
        rows = relations.with_watermark(rows, 0, relations.used_columns(rows.select(*prepared)))
    kept = rows.select(*prepared).where(f.col(TIME).isNotNull())
    return Rows(elements, kept.schema, kept)


def with_function(stream: Stream, operator: WindowOperator, schema: StructType | str) -> DataFrame:
    """Return the results of windows by a Python function, in the columns of a schema."""
    columns = columns_of(schema)
    for place, name in enumerate(columns.names):
        check_result(stream.rows, name, [*stream.keys, *COLUMNS, *stream.row_columns, *columns.names[:place]])
    return _kept(stream, operator, operator.description, _each_row(stream, {}, reads_rows=True), columns, {})


def columns_of(schema: StructType | str) -> StructType:
    """Return the columns of a schema; raise OptionError if it has none, or is not a schema."""
    try:
        columns = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    except ParseException as error:
        raise OptionError(f"schema is {schema!r}, but: {sentence_of(error)}") from None
    if not isinstance(columns, StructType):
        raise OptionError(f"schema is {schema!r}, but it must name columns, such as 'total double'")
    if not columns:
        raise OptionError("the schema has no column: the results of windows need at least one, such as 'total double'")
    return columns


def split_outputs(batch: DataFrame, *names: str) -> tuple[DataFrame, ...]:
    """Return the results of a batch of windows, and the rows of each of these side outputs, for foreachBatch.

    Raises OptionError if the batch has no side output of a name.
    """
    check_is_frame("split_outputs", batch)
    for name in names:
        if not isinstance(name, str):
            raise OptionError(f"split_outputs() takes the names of side outputs, such as 'late', and not {name!r}")
    if not names and OUTPUT not in batch.columns:
        raise OptionError("the batch has no side outputs: its rows are all results")
    rows = {name: row_column(name) for name in names}
    for name, column in rows.items():
        if OUTPUT not in batch.columns or column not in batch.columns:
            raise OptionError(
                f"the batch has no side output {name!r}, whose rows would be in the column {column!r}: name it by "
                "side_output_late() or side_output()"
            )
    results = batch.where(f.col(OUTPUT) == RESULTS).drop(OUTPUT, *rows.values())
    of_names = (batch.where(f.col(OUTPUT) == name).select(f"`{column}`.*") for name, column in rows.items())
    return results, *of_names


def _kept(
    stream: Stream,
    operator: WindowOperator,
    description: Mapping[str, str],
    rows: Rows,
    results: StructType,
    texts: Mapping[str, str],
) -> DataFrame:
    """Return the results of the operator.

    results: the columns that its function returns.
    texts: the aggregates of SQL as the user wrote them, by these columns.
    """
    _set_state_store(stream.rows.sparkSession)
    holds_results = relations.holds_results_of_state(stream.rows)
    if holds_results:
        _check_results_of_state(stream, operator)
    has_event_times = stream.event_time is not None
    keeps_watermark = holds_results and has_event_times and operator.reads_watermark
    # A function that the user gives with a schema may have results of other names and types.
    in_columns = bool(texts) and ColumnWindows.takes(operator, _arrow_schema(rows.schema))
    settings = ProcessorSettings(
        operator=operator,
        description={**described_stream(stream.rows, stream.keys, stream.event_time), **description},
        buckets=stream.buckets,
        packed=rows.schema,
        keys=stream.key_columns,
        elements=rows.elements,
        results={field.name: field.type for field in _arrow_schema(results)},
        late=stream.late,
        late_columns=tuple(stream.rows.columns),
        outputs={name: {x.name: x.type for x in _arrow_schema(kind)} for name, kind in stream.outputs.items()},
        has_event_times=has_event_times,
        ahead_ms=relations.ahead_ms(stream.rows) if keeps_watermark else None,
        time_mode=_time_mode(stream, operator),
        texts=texts,
        in_columns=in_columns,
    )
    schema = _schema(stream, operator, results)
    single = [*stream.keys, WINDOW_START, WINDOW_END, *results.names]
    of_names = zip(many_names(len(single)), single, strict=True)
    many = StructType([StructField(name, ArrayType(schema[column].dataType)) for name, column in of_names])
    with_notes = StructType([*schema, *([StructField(MANY, many)] if in_columns else [])])
    with needing("windows", "an operator of windows"):
        for package in ("google.protobuf", "google.rpc", "grpc"):  # Spark's own errors do not name them
            import_module(package)
    of_buckets = rows.packed(stream)
    given = of_buckets.groupBy(BUCKET).transformWithState(
        WindowProcessor(settings),
        with_notes.add(CALL, StructType.fromDDL(CALL_COLUMNS)),
        outputMode="append",
        timeMode=settings.time_mode,
    )
    counted = observed(given, f.col(CALL).dropped, f.col(CALL))
    kept = counted.where(f.col(CALL).isNull()).drop(CALL)
    return _each_result(kept, single) if in_columns else kept


def _each_result(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return a row for each result, from rows of which some hold one in these columns, and some hold many."""
    many = many_names(len(columns))
    others = [f.col(f"`{name}`") for name in rows.columns if name != MANY]
    is_many = f.col(MANY).isNotNull().alias(MANY)
    arrays = f.arrays_zip(*(f.col(f"{MANY}.{name}") for name in many))
    apart = rows.select(*others, is_many, f.inline_outer(arrays).alias(*many))
    values = {**dict(zip(columns, map(f.col, many), strict=True)), OUTPUT: f.lit(RESULTS)}

    def result(field: StructField) -> Column:
        column = f.col(f"`{field.name}`")
        if field.name in values:
            column = f.when(f.col(MANY), values[field.name]).otherwise(column)
        return column.alias(field.name, metadata=field.metadata)  # which may mark the event time

    return apart.select(*(result(field) for field in rows.schema if field.name != MANY))


def _check_results_of_state(stream: Stream, operator: WindowOperator) -> None:
    """Raise OptionError for windows over results that may be late, or that Spark gives no watermark."""
    if operator.in_event_time and stream.late is None:
        raise OptionError(
            "the stream holds results of a stateful step, such as other windows, which may be late for these: keep "
            "them by side_output_late()"
        )
    if operator.event_time and relations.ends_watermark(stream.rows):
        raise OptionError(
            "the stream has a step in processing time, such as windows with a time-out, and Spark has no watermark "
            "behind it: windows in event time would never close"
        )


def _arrow_schema(columns: StructType) -> pa.Schema:
    try:
        return to_arrow_schema(columns, timezone="UTC")
    except PySparkException as error:
        raise OptionError(f"the operator of windows cannot take a column: {sentence_of(error)}") from None


def _time_mode(stream: Stream, operator: WindowOperator) -> TimeMode:
    """Return the kind of time of Spark's timers.

    In processing time Spark runs batches without end, so a trigger that does not say which timers it uses gets
    event time.
    """
    if operator.processing_time:
        return "ProcessingTime"
    return "None" if stream.event_time is None else "EventTime"


def _schema(stream: Stream, operator: WindowOperator, results: StructType) -> StructType:
    rows = stream.rows.schema
    # Spark would drop the results of late rows, because their windows are over.  In processing time it has no
    # watermark, and would never forget a result.
    is_marked = operator.in_event_time and not operator.allowed_lateness and not operator.processing_time
    schema = StructType([_as_key(rows[key]) for key in stream.keys]).add(WINDOW_START, TimestampType())
    schema = schema.add(WINDOW_END, TimestampType(), metadata=relations.EVENT_TIME if is_marked else None)
    for field in results.fields:
        schema = schema.add(StructField(field.name, field.dataType, nullable=True))
    of_outputs = {**({} if stream.late is None else {stream.late: rows}), **stream.outputs}
    if of_outputs:
        schema = schema.add(OUTPUT, StringType())
    for name, kind in of_outputs.items():
        schema = schema.add(row_column(name), kind)
    return schema


def _as_key(column: StructField) -> StructField:
    """Return a column of keys that is null in rows of other kinds, without the mark of event times.

    Spark would take the key for the time of a result.  It would drop the results of longer windows over windows,
    because the windows whose end is the key are over.
    """
    metadata = {name: value for name, value in column.metadata.items() if name not in relations.EVENT_TIME}
    return StructField(column.name, column.dataType, nullable=True, metadata=metadata)


def _set_state_store(spark: SparkSession) -> None:
    """Set the state store that transformWithState needs, which commits the changes of a batch and not whole files."""
    if spark.conf.get(_PROVIDER) != _ROCKSDB:
        spark.conf.set(_PROVIDER, _ROCKSDB)
    if spark.conf.get(_CHANGELOG, None) is None:
        spark.conf.set(_CHANGELOG, "true")
