"""Finds the sources of a stream in its plan, and lets them tell their watermark.

Whoever asks for windows has a DataFrame on which steps may follow the source already.  Only in the plan can
the source below them be found and loaded once more, with the options that windows need.  So this module talks
to Spark's planner (Catalyst), which has no Python API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from tidegate.errors import OptionError
from tidegate.sources.bridge import WINDOWS, source_of
from tidegate.sources.columns.watermark import follow_source_watermark
from tidegate.sources.tasks import PREVIOUS_WATERMARK, SOURCE_WATERMARK

__all__ = ["CARRIED", "has_watermark", "lets_columns_through", "telling_watermark"]

CARRIED = "__previous_watermark"
"""The column by which steps carry the watermark at the start of the batch, beside any column of the user."""

_RELATION, _WATERMARK, _PROJECT = "StreamingRelationV2", "EventTimeWatermark", "Project"
_TRANSPARENT = {_RELATION, _PROJECT, "Filter", "SubqueryAlias"}


def has_watermark(rows: DataFrame) -> bool:
    """Tell whether a step of the stream defines a watermark already."""
    return any(_kind(node) == _WATERMARK for node in _nodes(_plan(rows)))


def lets_columns_through(rows: DataFrame) -> bool:
    """Tell whether each row of the stream is one of one source, so that it can carry a column of that."""
    return all(_kind(node) in _TRANSPARENT for node in _nodes(_plan(rows)))


def telling_watermark(rows: DataFrame, ahead_ms: int, windows: Mapping[str, str] | None = None) -> DataFrame:
    """Return the stream with a watermark: that of its sources, plus ``ahead_ms``, in front of all steps.

    windows: the description of those that Spark keeps of the stream, which then stands in its offsets; the stream also
        has the column ``CARRIED``, and its steps must let columns of the source through.  None: Spark keeps none.

    Raises OptionError for a stream with a source that is not of tidegate.
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
    return _data_frame(spark, _rebuilt(spark, plan, ahead_ms, windows))


def _is_of_tidegate(source: Any) -> bool:
    return _kind(source) == _RELATION and _name(source).startswith("tidegate_")


def _rebuilt(spark: SparkSession, node: Any, ahead_ms: int, windows: Mapping[str, str] | None) -> Any:
    if _kind(node) == _RELATION:
        return _telling_relation(spark, node, ahead_ms, windows)
    children = _list(node.children())
    if not children:
        return node
    rebuilt = [_rebuilt(spark, child, ahead_ms, windows) for child in children]
    node = node.withNewChildren(_seq(spark, rebuilt))
    if windows is None or _kind(node) != _PROJECT:
        return node
    carried = [column for column in _list(node.child().output()) if column.name() == CARRIED]
    return _catalyst(spark).plans.logical.Project(_seq(spark, [*_list(node.projectList()), *carried]), node.child())


def _telling_relation(spark: SparkSession, relation: Any, ahead_ms: int, windows: Mapping[str, str] | None) -> Any:
    """Return a plan with the columns of the relation, by which the steps above know them, and the watermark.

    The source is loaded with the columns that it has: the user may have given them, or they were inferred before.
    """
    asked = [SOURCE_WATERMARK, *[PREVIOUS_WATERMARK] * (windows is not None)]
    options = dict(relation.extraOptions().asCaseSensitiveMap())
    options |= {"includeSourceWatermark": "true", "watermarkRows": "true"}
    if windows is not None:
        options["includePreviousWatermark"] = "true"
    source_of(_name(relation), options)  # Spark takes wrong options until the query begins, because of the columns
    if windows is not None:
        options[WINDOWS] = json.dumps(windows)
    schema = StructType.fromJson(json.loads(relation.schema().json()))
    for name in asked:
        if name not in schema.names:
            schema = schema.add(name, TimestampType())
    loaded = spark.readStream.format(_name(relation)).options(**options).schema(schema).load()
    marked = follow_source_watermark(loaded, ahead_ms)
    expressions = _catalyst(spark).expressions
    none, nothing = _none(spark), _seq(spark, [])
    now = {column.name(): column for column in _list(_plan(marked).output())}
    columns = [
        expressions.Alias(now[was.name()], was.name(), was.exprId(), was.qualifier(), none, nothing)
        for was in _list(relation.output())
    ]
    if windows is not None:
        fresh = _catalyst(spark).expressions.NamedExpression.newExprId()
        columns.append(expressions.Alias(now[PREVIOUS_WATERMARK], CARRIED, fresh, nothing, none, nothing))
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


def _kind(node: Any) -> str:
    return str(node.nodeName())


def _name(source: Any) -> str:
    """Return what Spark calls a source; some kinds of sources have no name."""
    return str(source.sourceName()) if _kind(source) in {_RELATION, "StreamingRelation"} else _kind(source)
