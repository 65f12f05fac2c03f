"""Finds the sources of a stream in its plan, and lets them tell their watermark.

Whoever asks for windows has a DataFrame on which steps may follow the source already.  Only in the plan can
the source below them be found and loaded once more, with the options that windows need.  So this module talks
to Spark's planner (Catalyst), which has no Python API.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from tidegate.errors import OptionError
from tidegate.sources.bridge import check_has_watermarks, source_of
from tidegate.sources.columns.for_windows import ForWindows
from tidegate.sources.columns.watermark import follow_window_watermark
from tidegate.sources.sentences import sentence_of
from tidegate.sources.tasks import WINDOW_WATERMARK
from tidegate.sources.windows.names import check_source

__all__ = [
    "checked",
    "has_watermark",
    "holds_results_of_state",
    "lets_columns_through",
    "telling_watermark",
    "used_columns",
]

_RELATION, _WATERMARK, _PROJECT = "StreamingRelationV2", "EventTimeWatermark", "Project"
_TRANSPARENT = {_RELATION, _PROJECT, "Filter", "SubqueryAlias"}


def has_watermark(rows: DataFrame) -> bool:
    """Return whether a step of the stream defines a watermark already."""
    return any(_kind(node) == _WATERMARK for node in _nodes(_plan(rows)))


def holds_results_of_state(rows: DataFrame) -> bool:
    """Return whether rows may come after the watermark has passed them, as results of a stateful step do.

    Such steps are Spark's aggregations and every transformWithState, with windows or without.
    """
    return any(
        node.isStreaming() and (_kind(node) == "Aggregate" or _kind(node).startswith("TransformWithState"))
        for node in _nodes(_plan(rows))
    )


def lets_columns_through(rows: DataFrame) -> bool:
    """Return whether each row of the stream is one of one source, so that it can carry a column of that."""
    return all(_kind(node) in _TRANSPARENT for node in _nodes(_plan(rows)))


def checked(windows: DataFrame) -> DataFrame:
    """Return windows that Spark can run as a stream.

    Raises OptionError for those that Spark would refuse when the query begins.
    """
    spark = windows.sparkSession
    append = spark._jvm.org.apache.spark.sql.streaming.OutputMode.Append()  # type: ignore[union-attr]  # noqa: SLF001
    try:
        _catalyst(spark).analysis.UnsupportedOperationChecker.checkForStreaming(_plan(windows), append)
    except AnalysisException as error:
        raise OptionError(f"Spark cannot run these windows as a stream: {sentence_of(error)}") from None
    return windows


def used_columns(rows: DataFrame) -> set[str]:
    """Return those columns of its sources that a stream needs, as Catalyst knows them.

    Spark itself prunes no columns of sources in Python: it makes a row of all of them.
    """
    optimized = rows.sparkSession._jsparkSession.sessionState().optimizer().execute(_plan(rows))  # noqa: SLF001
    return _used_below(optimized, None)


def _used_below(node: Any, above: set[str] | None) -> set[str]:
    """Return the columns of sources that are used at a node or below it.

    above: the columns that steps above it use; None: all.
    """
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


def telling_watermark(
    rows: DataFrame, ahead_ms: int, used: Collection[str] | None, description: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the stream with a watermark: that of its sources, plus ``ahead_ms``, in front of all steps.

    used: the columns of sources that are used, as ``used_columns`` has them; the others hold a value of their type,
        never null.  None: all.
    description: of the windows that Spark keeps of the stream, which then stands in its offsets; the stream also has
        the column ``tasks.WINDOW_WATERMARK``, and its steps must let columns of the source through.  None: Spark keeps
        no windows.

    Raises OptionError for a stream with a source that is not of tidegate, or that has a column of that name.
    """
    plan = _plan(rows)
    sources = [node for node in _nodes(plan) if node.isStreaming() and not _list(node.children())]
    others = sorted({_name(source) for source in sources if not _is_of_tidegate(source)})
    if others or not sources:
        raise OptionError(
            f"windows need a watermark, and the source {others[0] if others else 'of the stream'!r} tells none: "
            "use withWatermark on the stream first, or a source of tidegate"
        )
    spark = rows.sparkSession
    return _data_frame(spark, _rebuilt(spark, plan, ahead_ms, used, description))


def _is_of_tidegate(source: Any) -> bool:
    return _kind(source) == _RELATION and _name(source).startswith("tidegate_")


def _rebuilt(
    spark: SparkSession, node: Any, ahead_ms: int, used: Collection[str] | None, description: Mapping[str, str] | None
) -> Any:
    if _kind(node) == _RELATION:
        return _telling_relation(spark, node, ahead_ms, used, description)
    children = _list(node.children())
    if not children:
        return node
    rebuilt = [_rebuilt(spark, child, ahead_ms, used, description) for child in children]
    node = node.withNewChildren(_seq(spark, rebuilt))
    if description is None or _kind(node) != _PROJECT:
        return node
    carried = [column for column in _list(node.child().output()) if column.name() == WINDOW_WATERMARK]
    return _catalyst(spark).plans.logical.Project(_seq(spark, [*_list(node.projectList()), *carried]), node.child())


def _telling_relation(
    spark: SparkSession,
    relation: Any,
    ahead_ms: int,
    used: Collection[str] | None,
    description: Mapping[str, str] | None,
) -> Any:
    """Return a plan with the columns of the relation, by which the steps above know them, and the watermark.

    The source is told the columns that it has: the user may have given them, or they were inferred before.
    """
    options = dict(relation.extraOptions().asCaseSensitiveMap())
    source = source_of(_name(relation), options)
    if source is not None:  # Spark takes wrong options until the query begins, because of the columns
        check_has_watermarks(source)
    asked = ForWindows(ahead_ms, json.loads(relation.schema().json()), description)
    check_source(asked.schema.names)
    options[asked.option] = asked.to_text()
    output = _list(relation.output())
    read = {column.name() for column in output if used is None or _id(column) in used}
    # A row that only tells the watermark holds null in every column.
    fields = [StructField(x.name, x.dataType, nullable=True) for x in asked.schema.fields if x.name in read]
    narrow = StructType(fields).add(WINDOW_WATERMARK, TimestampType())
    loaded = spark.readStream.format(_name(relation)).options(**options).schema(narrow).load()
    marked = follow_window_watermark(loaded)
    expressions = _catalyst(spark).expressions
    none, nothing = _none(spark), _seq(spark, [])
    now = {column.name(): column for column in _list(_plan(marked).output())}
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
    if description is not None:
        fresh = _catalyst(spark).expressions.NamedExpression.newExprId()
        columns.append(expressions.Alias(now[WINDOW_WATERMARK], WINDOW_WATERMARK, fresh, nothing, none, nothing))
    return _catalyst(spark).plans.logical.Project(_seq(spark, columns), _plan(marked))


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - Catalyst has no Python API


def _data_frame(spark: SparkSession, plan: Any) -> DataFrame:
    classic = spark._jvm.org.apache.spark.sql.classic  # type: ignore[union-attr]  # noqa: SLF001
    return DataFrame(classic.Dataset.ofRows(spark._jsparkSession, plan), spark)  # noqa: SLF001


def _catalyst(spark: SparkSession) -> Any:
    return spark._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]  # noqa: SLF001


def _none(spark: SparkSession) -> Any:
    return spark._jvm.scala.Option.empty()  # type: ignore[union-attr]  # noqa: SLF001


def _seq(spark: SparkSession, items: list[Any]) -> Any:
    return spark._jvm.PythonUtils.toSeq(items)  # type: ignore[union-attr]  # noqa: SLF001


def _list(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.size())]


def _nodes(plan: Any) -> list[Any]:
    return [plan, *(node for child in _list(plan.children()) for node in _nodes(child))]


def _id(column: Any) -> str:
    return str(column.exprId())


def _kind(node: Any) -> str:
    return str(node.nodeName())


def _name(source: Any) -> str:
    """Return what Spark calls a source; some kinds of sources have no name."""
    return str(source.sourceName()) if _kind(source) in {_RELATION, "StreamingRelation"} else _kind(source)
