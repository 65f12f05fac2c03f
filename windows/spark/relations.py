"""Finds the sources of a stream in its plan, and has them give their watermark.

The user's DataFrame may already have steps after the source.  The source is found only in the plan, and loaded once
more with the options that windows need, so this module talks to Spark's planner (Catalyst), which has no Python API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructField, StructType, TimestampType

from tidegate.add_ons import (
    ADD_ON_WATERMARK,
    SOURCE_WATERMARK,
    AddOn,
    StageCall,
    check_has_watermarks,
    follow_add_on_watermark,
    source_of,
)
from tidegate.errors import OptionError
from tidegate.spark_private import analyzed_plan, java_of, java_session
from tidegate.windows.spark.names import check_source

_RELATION, _WATERMARK, _PROJECT = "StreamingRelationV2", "EventTimeWatermark", "Project"
_WITH_STATE = "WithState"  # a part of Catalyst's names of steps that keep state of the user's own
_TRANSFORM = "TransformWithState"
WINDOWS = "windows"
"""The add-on's name in sentences and offsets."""
_NAMED_BY_USER = "UserProvided"  # Catalyst's kind of the names that DataStreamReader.name() gives
_TRANSPARENT = {_RELATION, _PROJECT, "Filter", "SubqueryAlias"}
_WHOLE = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
_CASTS = {
    "BINARY": {"STRING"},
    "FLOAT": {"DOUBLE"},
    **{kind: {*_WHOLE[place:], "DOUBLE", "STRING"} for place, kind in enumerate(_WHOLE)},
}
"""The casts that a task makes as Spark does: the types that it makes of each."""


EVENT_TIME = {"spark.watermarkDelayMs": 0}
"""Spark's own mark of a column with event times, which withWatermark sets.

With it Spark's joins by the ends of windows forget results that are over.
"""


def has_watermark(rows: DataFrame) -> bool:
    """Return whether a step of the stream already defines a watermark."""
    return any(_kind(node) == _WATERMARK for node in _nodes(analyzed_plan(rows)))


def holds_results_of_state(rows: DataFrame) -> bool:
    """Return whether the stream has results of a stateful step, which may come after the watermark has passed them.

    Such steps are Spark's aggregations, joins of two streams, and all steps with state of the user's own, with windows
    or without.  transformWithState is one of them.
    """
    return any(map(_gives_results_of_state, _nodes(analyzed_plan(rows))))


def _gives_results_of_state(node: Any) -> bool:
    kind = _kind(node)
    if kind == "Join":
        return all(child.isStreaming() for child in _list(node.children()))
    return node.isStreaming() and (kind == "Aggregate" or _WITH_STATE in kind)


def ends_watermark(rows: DataFrame) -> bool:
    """Return whether a transformWithState of the stream is in processing time: Spark has no watermark behind it."""
    steps = [node for node in _nodes(analyzed_plan(rows)) if _kind(node).startswith(_TRANSFORM)]
    return any(str(node.timeMode()) == "ProcessingTime" for node in steps)


def ahead_ms(rows: DataFrame) -> int:
    """Return how far Spark's watermark is ahead of the sources', in ms, because of windows that Spark itself keeps."""
    options = (dict(node.extraOptions()) for node in _nodes(analyzed_plan(rows)) if _kind(node) == _RELATION)
    return max(
        (AddOn.of_text(given[AddOn.option]).ahead_ms for given in options if AddOn.option in given),
        default=0,
    )


def lets_columns_through(rows: DataFrame) -> bool:
    """Return whether each row of the stream is a row of one source, and so can carry a column of that source."""
    return all(_kind(node) in _TRANSPARENT for node in _nodes(analyzed_plan(rows)))


def used_columns(rows: DataFrame) -> set[str]:
    """Return the columns of the sources that a stream needs, by Catalyst's ids.

    Spark itself prunes no columns of sources in Python: each row has all of them.
    """
    optimized = java_session(rows.sparkSession).sessionState().optimizer().execute(analyzed_plan(rows))
    return _used_below(optimized, None)


def _used_below(node: Any, above: set[str] | None) -> set[str]:
    """Return the columns of sources that are used at a node or below it, by those above; None: all."""
    if _kind(node) == _RELATION:
        return above or {_id(column) for column in _list(node.output())}
    read = {_id(column) for column in _list(node.references().toSeq())}
    match _kind(node):
        case "Project" | "Aggregate":
            above = read
        case "Filter":
            above = above and above | read
        case _:
            above = None
    return {column for child in _list(node.children()) for column in _used_below(child, above)}


def check_can_stream(rows: DataFrame) -> None:
    """Raise Spark's AnalysisException for a stream that a query in append mode could not begin with."""
    sql = java_of(rows.sparkSession).org.apache.spark.sql
    append = sql.streaming.OutputMode.Append()
    sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(analyzed_plan(rows), append)


def with_watermark(
    rows: DataFrame, ahead_ms: int, used: Collection[str] | None, description: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the stream with the watermark of its sources plus ``ahead_ms``, defined before all its steps.

    used: the columns of sources that are used, as ``used_columns`` has them; the others hold a value of their type,
        never null.  None: all.
    description: the description of the windows that Spark keeps; the stream's offsets then hold it.  The stream also
        gets the column ``tasks.ADD_ON_WATERMARK``, and its steps must let columns of the source through.
        None: Spark keeps no windows.

    Raises OptionError if a source is not of tidegate, or has a column of that name.
    """
    plan = analyzed_plan(rows)
    sources = [node for node in _leaves(plan) if node.isStreaming()]
    others = sorted({_name(source) for source in sources if not _is_of_tidegate(source)})
    if others or not sources:
        raise OptionError(
            f"windows need a watermark, and the source {others[0] if others else 'of the stream'!r} has none: "
            "use withWatermark on the stream first, or a source of tidegate"
        )
    spark = rows.sparkSession
    carried = None if description is None else _catalyst(spark).expressions.NamedExpression.newExprId()

    def marked(relation: Any) -> Any:
        asked = AddOn(WINDOWS, json.loads(relation.schema().json()), ahead_ms, description)
        return _relation_with_watermark(spark, relation, asked, used, carried)

    return _data_frame(spark, _rebuilt(spark, plan, marked, carried))


def source_paths(rows: DataFrame) -> list[tuple[str, ...]] | None:
    """Return where each column of a stream is in its one source: the name of a column, and those of fields in it.

    None: a step does more than to rename columns and to cast them as ``_CASTS`` allows.
    """
    analyzed = analyzed_plan(rows)
    if len(_leaves(analyzed)) > 1:  # of which the optimizer drops one that it knows to be empty
        return None
    plan = java_session(rows.sparkSession).sessionState().optimizer().execute(analyzed)
    columns = _list(plan.output())
    if _kind(plan) == _PROJECT:
        columns, plan = _list(plan.projectList()), plan.child()
    if not _is_of_tidegate(plan):
        return None
    # By their ids: a column has the name as the user wrote it, in upper or lower case.
    names = {_id(column): str(column.name()) for column in _list(plan.output())}
    paths = [_path(column, names) for column in columns]
    return None if None in paths else [path for path in paths if path is not None]


def _path(column: Any, names: Mapping[str, str]) -> tuple[str, ...] | None:
    match column.nodeName():
        case "AttributeReference":
            name = names[_id(column)]
            return None if name == SOURCE_WATERMARK else (name,)
        case "Alias":
            return _path(column.child(), names)
        case "GetStructField":
            path = _path(column.child(), names)
            return None if path is None else (*path, str(column.childSchema().apply(column.ordinal()).name()))
        case "Cast":
            is_allowed = str(column.dataType().sql()) in _CASTS.get(str(column.child().dataType().sql()), ())
            return _path(column.child(), names) if is_allowed else None
    return None


def of_stage(
    rows: DataFrame, ahead_ms: int, description: Mapping[str, str] | None, stage: StageCall, made: StructType
) -> DataFrame:
    """Return what a stage makes of the source of a stream, in these columns and ``tasks.ADD_ON_WATERMARK``.

    rows: a stream with ``source_paths``.  For the others see ``with_watermark``.
    """
    (relation,) = _leaves(analyzed_plan(rows))
    asked = AddOn(WINDOWS, json.loads(relation.schema().json()), ahead_ms, description, stage)
    return _loaded(rows.sparkSession, relation, asked, made.fields)


def _is_of_tidegate(source: Any) -> bool:
    return _kind(source) == _RELATION and _name(source).startswith("tidegate_")


def _rebuilt(spark: SparkSession, node: Any, marked: Callable[[Any], Any], carried: Any) -> Any:
    """Return a plan with other relations; carried: the id of a column that all projections pass on, if any."""
    if _kind(node) == _RELATION:
        return marked(node)
    children = _list(node.children())
    if not children:
        return node
    node = node.withNewChildren(_seq(spark, [_rebuilt(spark, child, marked, carried) for child in children]))
    if carried is None or _kind(node) != _PROJECT:
        return node
    # By its id, for a step may have a column of this name that a later one drops.
    passed_on = [column for column in _list(node.child().output()) if column.exprId().equals(carried)]
    return _catalyst(spark).plans.logical.Project(_seq(spark, [*_list(node.projectList()), *passed_on]), node.child())


def _relation_with_watermark(
    spark: SparkSession, relation: Any, asked: AddOn, used: Collection[str] | None, carried: Any
) -> Any:
    """Return a plan with the watermark, and with the relation's columns under the ids that the steps above know.

    The source gets its columns as an option: the user may have given them, or they were inferred before.
    """
    output = _list(relation.output())
    read = {column.name() for column in output if used is None or _id(column) in used}
    marked = _loaded(spark, relation, asked, [field for field in asked.schema.fields if field.name in read])
    expressions = _catalyst(spark).expressions
    none, nothing = _none(spark), _seq(spark, [])
    now = {column.name(): column for column in _list(analyzed_plan(marked).output())}
    columns = [
        expressions.Alias(
            now[was.name()] if was.name() in read else expressions.Literal.default(was.dataType()),
            was.name(),
            was.exprId(),
            was.qualifier(),
            none,
            nothing,
        )
        for was in output
    ]
    if carried is not None:
        columns.append(expressions.Alias(now[ADD_ON_WATERMARK], ADD_ON_WATERMARK, carried, nothing, none, nothing))
    return _catalyst(spark).plans.logical.Project(_seq(spark, columns), analyzed_plan(marked))


def _loaded(spark: SparkSession, relation: Any, asked: AddOn, columns: Collection[StructField]) -> DataFrame:
    """Return a relation loaded once more, with these columns and that of the watermark, which Spark follows."""
    options = dict(relation.extraOptions().asCaseSensitiveMap())
    source = source_of(_name(relation), options)
    if source is not None:  # with a schema, Spark checks options only when the query begins
        check_has_watermarks(source, asked)
    check_source(asked.schema.names)
    options[asked.option] = asked.to_text()
    # A row with only the watermark has null in every other column.
    fields = [StructField(column.name, column.dataType, nullable=True) for column in columns]
    schema = StructType(fields).add(ADD_ON_WATERMARK, TimestampType())
    reader = spark.readStream.format(_name(relation)).options(**options).schema(schema)
    return follow_add_on_watermark(_named_as(reader, relation).load())


def _named_as(reader: DataStreamReader, relation: Any) -> DataStreamReader:
    """Return a reader of a source with the name, if any, under which Spark keeps the source in checkpoints."""
    identity = relation.sourceIdentifyingName()
    return reader.name(identity.name()) if identity.getClass().getSimpleName() == _NAMED_BY_USER else reader


def _data_frame(spark: SparkSession, plan: Any) -> DataFrame:
    classic = java_of(spark).org.apache.spark.sql.classic
    return DataFrame(classic.Dataset.ofRows(java_session(spark), plan), spark)


def _catalyst(spark: SparkSession) -> Any:
    return java_of(spark).org.apache.spark.sql.catalyst


def _none(spark: SparkSession) -> Any:
    return java_of(spark).scala.Option.empty()


def _seq(spark: SparkSession, items: list[Any]) -> Any:
    return java_of(spark).PythonUtils.toSeq(items)


def _list(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.size())]


def _nodes(plan: Any) -> list[Any]:
    return [plan, *(node for child in _list(plan.children()) for node in _nodes(child))]


def _leaves(plan: Any) -> list[Any]:
    return [node for node in _nodes(plan) if not _list(node.children())]


def _id(column: Any) -> str:
    return str(column.exprId())


def _kind(node: Any) -> str:
    return str(node.nodeName())


def _name(source: Any) -> str:
    """Return Spark's name of a source; some kinds of sources have no name."""
    return str(source.sourceName()) if _kind(source) in {_RELATION, "StreamingRelation"} else _kind(source)
