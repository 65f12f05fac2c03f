"""``tidegate.windowed``: Flink's windows over a stream of Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StringType, StructType, TimestampType, VariantType

from tidegate.add_ons import check_is_frame, sentence_of
from tidegate.errors import OptionError
from tidegate.spark_private import is_classic
from tidegate.windows import (
    Aggregate,
    AggregateFunction,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    Process,
    ProcessWindowFunction,
    Reduce,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowFunction,
    WindowOperator,
)
from tidegate.windows.callables import check_takes
from tidegate.windows.spark import native, operating, relations
from tidegate.windows.spark.expressions import check_expression, parts_of
from tidegate.windows.spark.in_source import way_of
from tidegate.windows.spark.names import (
    check_columns,
    check_keys,
    check_no_backtick,
    check_result,
    column_name,
    column_names,
)
from tidegate.windows.spark.processor import RESULTS, row_column
from tidegate.windows.window import duration_ms, whole_number

Schema = StructType | str


def windowed(rows: DataFrame, key: str | Sequence[str], event_time: str | None = None) -> WindowedStream:
    """Begin windows over a stream, as Flink has them, on the source's own watermark.

    rows: a stream of a tidegate source, after any steps; ``windowed`` defines its watermark.  Or any other stream
        with ``withWatermark``: then rows behind Spark's watermark are late, and one split alone may drive it ahead.
    key: the columns of the key; each key has windows of its own.
    event_time: the column with the timestamp of a row; None: windows in processing time.  Rows without it are in
        no window.

    Raises OptionError for a missing column, for a key or an event time of a wrong type, for a batch DataFrame, and for
    Spark Connect.  ``aggregate``, ``reduce`` and ``process`` raise it for a stream without a watermark.
    """
    _check_stream(rows)
    keys = column_names("key", key)
    times = [] if event_time is None else [column_name("event_time", event_time)]
    check_columns(rows, [*keys, *times])
    check_keys(rows, keys, operating.COLUMNS)
    _check_types_of_keys(rows, keys)
    if event_time is not None:
        _check_event_time(rows, event_time)
    return WindowedStream(rows, keys, event_time)


def _check_stream(rows: DataFrame) -> None:
    check_is_frame("windowed", rows)
    if not is_classic(rows):
        raise OptionError(
            f"windows are for a DataFrame of a classic session of Spark, not {type(rows).__module__}.DataFrame: "
            "Spark Connect shows no plan in which the sources could be found; build the session without remote()"
        )
    if not rows.isStreaming:
        raise OptionError(
            "windows are for streams: use readStream, with Trigger.AvailableNow to end where the data does"
        )


def _check_types_of_keys(rows: DataFrame, keys: Sequence[str]) -> None:
    for name in keys:
        kind = rows.schema[name].dataType
        if isinstance(kind, StructType | ArrayType | MapType | VariantType):
            raise OptionError(f"the key {name!r} is not a single value; name its columns, such as select('{name}.id')")
        if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
            raise OptionError(
                f"the key {name!r} is {kind.simpleString()}, and the state of windows compares keys without a "
                f"collation: add a column such as lower({name}) COLLATE UTF8_BINARY, and name that as the key"
            )


def _check_event_time(rows: DataFrame, event_time: str) -> None:
    if not isinstance(rows.schema[event_time].dataType, TimestampType):
        kind = rows.schema[event_time].dataType.simpleString()
        raise OptionError(
            f"the event time {event_time!r} is {kind}, but must be timestamp: convert it first, "
            f"such as milliseconds by timestamp_millis({event_time}), "
            f"or a time without a zone, which sources take for UTC, by CAST({event_time} || 'Z' AS TIMESTAMP)"
        )


@dataclass(frozen=True)
class WindowedStream:
    """The description of windows.  Each method returns a new description; the functions return a DataFrame.

    A DataFrame of windows has the key columns, ``window_start`` and ``window_end`` (timestamps; null for the global
    window), and the results.  With side outputs it also has the column ``output``, which is ``results`` or the name of
    the side output, and a column for the rows of each: those of ``late`` are in ``late_row``.  ``split_outputs`` takes
    a batch apart.  Write the DataFrame in append mode.
    """

    _rows: DataFrame
    _keys: tuple[str, ...]
    _event_time: str | None
    _assigner: WindowAssigner | None = None
    _trigger: Trigger | None = None
    _evictor: Evictor | None = None
    _lateness: timedelta = timedelta(0)
    _late: str | None = None
    _outputs: Mapping[str, StructType] = field(default_factory=dict)
    _buckets: int | None = None

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Set the windows of a row, such as ``TumblingEventTimeWindows.of(timedelta(minutes=5))``."""
        if not isinstance(assigner, WindowAssigner):
            raise OptionError(f"window() takes an assigner of tidegate.windows, not {assigner!r}")
        if assigner.is_event_time() and self._event_time is None:
            raise OptionError(
                f"{type(assigner).__name__} go by event time: name it, as windowed(..., event_time='...')"
            )
        return replace(self, _assigner=assigner)

    def trigger(self, trigger: Trigger) -> WindowedStream:
        """Set when a window gives results.  The default is the assigner's trigger."""
        if not isinstance(trigger, Trigger):
            raise OptionError(f"trigger() takes a trigger of tidegate.windows, not {trigger!r}")
        return replace(self, _trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedStream:
        """Set which rows of a window are removed before or after its function."""
        if not isinstance(evictor, Evictor):
            raise OptionError(f"evictor() takes an evictor of tidegate.windows, not {evictor!r}")
        return replace(self, _evictor=evictor)

    def allowed_lateness(self, lateness: timedelta) -> WindowedStream:
        """Keep windows for this time after the watermark has passed their end; each late row gives a new result."""
        duration_ms("allowed_lateness", lateness, 0)
        return replace(self, _lateness=lateness)

    def side_output_late(self, name: str) -> WindowedStream:
        """Put the rows that came too late for their windows into an output of this name."""
        if self._late is not None:
            raise OptionError(f"late rows already go to the side output {self._late!r}")
        self._check_output(name, self._outputs)
        return replace(self, _late=name)

    def side_output(self, name: str, schema: Schema) -> WindowedStream:
        """Add an output for what the process function gives to ``context.output(name, row)``.

        schema: the columns of its rows.
        """
        self._check_output(name, [*self._outputs, *([] if self._late is None else [self._late])])
        return replace(self, _outputs={**self._outputs, name: operating.columns_of(schema)})

    def _check_output(self, name: str, others: Collection[str]) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"the side output must have a name, such as 'late', and not {name!r}")
        check_no_backtick("a side output is called", name)
        if name == RESULTS:
            raise OptionError(f"the side output cannot be called {name!r}, as the results are")
        if name.lower() in map(str.lower, others):
            raise OptionError(f"there is already a side output {name!r}")
        check_keys(self._rows, self._keys, [row_column(name)])

    def buckets(self, count: int) -> WindowedStream:
        """Set the number of buckets of keys, over which Spark spreads them.  A checkpoint keeps its number.

        By default each shuffle partition of the query has equally many, one or more, and there are 16 at least.  A
        bucket may hold any number of keys: a batch reads and writes only what it touches.
        """
        return replace(self, _buckets=whole_number("buckets", count, 1))

    def aggregate(
        self,
        function: AggregateFunction | None = None,
        process: ProcessWindowFunction | None = None,
        *,
        schema: Schema | None = None,
        **expressions: str,
    ) -> DataFrame:
        """Return the aggregates of each window.

        function: an aggregate function in Python, which returns mappings with the columns of ``schema``.
        process: a process function that takes its result.
        expressions: Spark expressions by the name of the result, such as ``total="sum(amount)"``.

        Raises OptionError where the parts do not fit.
        """
        if (function is None) == (not expressions):
            raise OptionError("aggregate() takes an aggregate function, or Spark expressions by the names of results")
        _check_texts(expressions)
        if function is None:
            if process is not None:
                raise OptionError("aggregate() takes a process function behind an aggregate function only")
            if schema is not None:
                raise OptionError("aggregate() takes a schema with an aggregate function only: expressions have types")
            return self._of_expressions(expressions)
        if not isinstance(function, AggregateFunction):
            raise OptionError(
                f"aggregate() takes an AggregateFunction of tidegate.windows, not {function!r}; an expression of Spark "
                "needs the name of its result, such as total='sum(amount)'"
            )
        _check_process("aggregate", process)
        return self._of_function(Aggregate(function, process), schema)

    def reduce(
        self,
        function: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]],
        process: ProcessWindowFunction | None = None,
        *,
        schema: Schema | None = None,
    ) -> DataFrame:
        """Return the rows of each window reduced to one, by a function of two rows.

        schema: the schema of the results; None: that of the rows, without the key.
        """
        check_takes(function, 2, "reduce() takes a function of two rows, which returns one,")
        _check_process("reduce", process)
        return self._of_function(Reduce(function, process), schema or self._rows.drop(*self._keys).schema)

    def process(self, function: ProcessWindowFunction, schema: Schema) -> DataFrame:
        """Return the results of a process function, which takes all rows of a window.

        function: returns mappings with the columns of ``schema``.
        """
        _check_process("process", function)
        return self._of_function(Process(function), schema)

    def explain(self, **expressions: str) -> str:
        """Return how the windows run, and why: in Spark's own aggregation, or in the operator.

        expressions: as ``aggregate`` takes them.  With them the text also says what tasks of the source do.
        """
        why = self._why_operator
        _check_texts(expressions)
        self._check_expressions(expressions)
        if why is not None:
            way = f"the operator of tidegate.windows, because {why}"
        elif expressions:
            way = "Spark's own window aggregation"
        else:
            way = "Spark's own window aggregation, for aggregates that are Spark expressions; else the operator"
        return f"{way}; {self._way_of_rows(expressions)}" if expressions else way

    def _way_of_rows(self, expressions: Mapping[str, str]) -> str:
        if self._why_operator is None:
            time = str(self._event_time)
            summed = native.summed_up(self._rows, self._keys, time, self._assigned, expressions)
            return way_of(sums=summed is not None, packs=False)
        parts = parts_of(self._rows, expressions)
        return operating.rows_of(self._stream(), self._operator(Aggregate(parts.function())), parts).way

    @cached_property
    def _why_operator(self) -> str | None:
        """Return why Spark's own aggregation cannot keep the windows."""
        parts = (self._assigned, self._trigger, self._evictor, self._lateness, self._late)
        return why_operator(*parts) or why_not_in_spark(self._rows)

    @property
    def _assigned(self) -> WindowAssigner:
        if self._assigner is None:
            raise OptionError("the windows are missing: call window() first")
        return self._assigner

    def _of_expressions(self, expressions: Mapping[str, str]) -> DataFrame:
        self._check_gives_outputs(None)
        for name in expressions:
            others = [other for other in expressions if other != name]
            check_result(self._rows, name, [*self._keys, *operating.COLUMNS, *self._stream().row_columns, *others])
        self._check_expressions(expressions)
        try:
            if self._why_operator is None:
                time = str(self._event_time)
                results = native.aggregated(self._rows, self._keys, time, self._assigned, expressions)  # type: ignore[arg-type]
                relations.check_can_stream(results)
                return results
            return operating.with_expressions(self._stream(), self._operator, expressions)
        except AnalysisException as error:  # of count(DISTINCT a), or explode() beside late rows
            texts = ", ".join(f"{name}={text!r}" for name, text in expressions.items())
            raise OptionError(f"Spark cannot take {texts} for these windows: {sentence_of(error)}") from None

    def _check_expressions(self, expressions: Mapping[str, str]) -> None:
        for name, text in expressions.items():
            check_expression(self._rows, self._keys, name, text)

    def _check_gives_outputs(self, process: ProcessWindowFunction | None) -> None:
        if self._outputs and process is None:
            raise OptionError(f"only a process function gives rows to the side output {next(iter(self._outputs))!r}")

    def _of_function(self, function: WindowFunction, schema: Schema | None) -> DataFrame:
        self._check_gives_outputs(function.process)
        if schema is None:
            raise OptionError("a Python function needs schema=..., the columns of its results, such as 'total double'")
        return operating.with_function(self._stream(), self._operator(function), schema)

    def _operator(self, function: WindowFunction) -> WindowOperator:
        operator = WindowOperator(self._assigned, function, self._trigger, self._evictor, self._lateness)
        if operator.event_time and self._event_time is None:
            raise OptionError(
                f"{type(operator.trigger).__name__} goes by event time: name it, as windowed(..., event_time='...')"
            )
        return operator

    def _stream(self) -> operating.Stream:
        return operating.Stream(self._rows, self._keys, self._event_time, self._late, self._outputs, self._buckets)


def _check_texts(expressions: Mapping[str, object]) -> None:
    for name, text in expressions.items():
        if not isinstance(text, str):
            raise OptionError(f"the aggregate {name!r} must be the text of an expression, such as 'sum(amount)'")


def _check_process(method: str, function: ProcessWindowFunction | None) -> None:
    """Raise OptionError if that is not a process function, or if it does not take key, context and elements."""
    if function is None and method != "process":
        return
    if not isinstance(function, ProcessWindowFunction):
        raise OptionError(
            f"{method}() takes a ProcessWindowFunction of tidegate.windows, not {function!r}: "
            "subclass it, and give an object of the class"
        )
    check_takes(function.process, 3, f"{type(function).__name__}.process must take key, context and elements,")


def why_operator(
    assigner: WindowAssigner,
    trigger: Trigger | None,
    evictor: Evictor | None,
    lateness: timedelta,
    late: str | None,
) -> str | None:
    """Return what these windows need and Spark's aggregation lacks."""
    for part in (trigger, evictor):
        if part is not None and type(part) is not EventTimeTrigger:
            return f"Spark has no {type(part).__name__}"
    if lateness:
        return "Spark has no allowed lateness"
    if late is not None:
        return "Spark drops late rows, and has no side output"
    return _why_not_assigned(assigner)


def why_not_in_spark(rows: DataFrame) -> str | None:
    """Return why Spark's aggregation cannot use the source's watermark as Flink would."""
    if relations.holds_results_of_state(rows):
        return "the stream holds results of a stateful step, such as other windows"
    if relations.has_watermark(rows):
        return "the watermark is that of the stream's own withWatermark"
    if not relations.lets_columns_through(rows):
        return "a step of the stream does not let the source's watermark through"
    return None


def _why_not_assigned(assigner: WindowAssigner) -> str | None:
    # By their own classes: a subclass may assign rows in another way.
    if type(assigner) is TumblingEventTimeWindows:
        return None
    if type(assigner) is SlidingEventTimeWindows:
        leaves_gaps = assigner.slide > assigner.size
        return "Spark's windows leave no gaps, and the slide is longer than the size" if leaves_gaps else None
    if type(assigner) in {EventTimeSessionWindows, DynamicEventTimeSessionWindows}:
        return "Spark drops a late row that an open session would still take"
    return f"Spark has no {type(assigner).__name__}"
