"""Finds the sources of a stream in its plan, and lets them tell their watermark.

Whoever asks for windows has a DataFrame on which steps may follow the source already.  Only in the plan can
the source below them be found and loaded once more, with the options that windows need.  So this module talks
to Spark's planner (Catalyst), which has no Python API.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import OptionError
from tidegate.sources.bridge import PREVIOUS_WATERMARK
from tidegate.sources.watermark import follow_source_watermark

__all__ = ["has_watermark", "lets_columns_through", "telling_watermark"]

_TELLING = {"includeSourceWatermark": "true", "includePreviousWatermark": "true", "watermarkRows": "true"}
_RELATION, _WATERMARK, _PROJECT = "StreamingRelationV2", "EventTimeWatermark", "Project"
_TRANSPARENT = {_RELATION, _PROJECT, "Filter", "SubqueryAlias"}


def has_watermark(rows: DataFrame) -> bool:
    """Tell whether a step of the stream defines a watermark already."""
    return any(_kind(node) == _WATERMARK for node in _nodes(_plan(rows)))


def lets_columns_through(rows: DataFrame) -> bool:
    """Tell whether each row of the stream is one of one source, so that it can carry a column of that."""
    return all(_kind(node) in _TRANSPARENT for node in _nodes(_plan(rows)))


def telling_watermark(rows: DataFrame, ahead_ms: int) -> DataFrame:
    """Return the stream with a watermark: that of its sources, plus ``ahead_ms``, in front of all steps.

    It also has the column ``previous_source_watermark`` where its steps let columns of the source through.

    Raises OptionError for a stream with a source that is not of tidegate.
    """
    sources = [node for node in _nodes(_plan(rows)) if _kind(node) == _RELATION]
    others = sorted({_name(node) for node in sources if not _name(node).startswith("tidegate_")})
    if others or not sources:
        raise OptionError(
            f"windows need a watermark, and the source {others[0] if others else 'of the stream'!r} tells none: "
            "use withWatermark on the stream first, or a source of tidegate"
        )
    spark = rows.sparkSession
    plan = _rebuilt(spark, _plan(rows), ahead_ms)
    return _data_frame(spark, plan)


def _rebuilt(spark: SparkSession, node: Any, ahead_ms: int) -> Any:
    if _kind(node) == _RELATION:
        return _telling_relation(spark, node, ahead_ms)
    children = _list(node.children())
    if not children:
        return node
    node = node.withNewChildren(_seq(spark, [_rebuilt(spark, child, ahead_ms) for child in children]))
    if _kind(node) != _PROJECT:
        return node
    carried = [each for each in _list(node.child().output()) if each.name() == PREVIOUS_WATERMARK]
    names = [*_list(node.projectList()), *carried]
    return _catalyst(spark).plans.logical.Project(_seq(spark, names), node.child())


def _telling_relation(spark: SparkSession, relation: Any, ahead_ms: int) -> Any:
    """Return a plan with the columns of the relation, by which the steps above know them, and the watermark."""
    options = {**dict(relation.extraOptions().asCaseSensitiveMap()), **_TELLING}
    marked = follow_source_watermark(spark.readStream.format(_name(relation)).options(**options).load(), ahead_ms)
    expressions = _catalyst(spark).expressions
    now = {each.name(): each for each in _list(_plan(marked).output())}
    as_known = [
        expressions.Alias(now[was.name()], was.name(), was.exprId(), was.qualifier(), _none(spark), _seq(spark, []))
        for was in _list(relation.output())
        if was.name() in now
    ]
    return _catalyst(spark).plans.logical.Project(_seq(spark, [*as_known, now[PREVIOUS_WATERMARK]]), _plan(marked))


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


def _name(relation: Any) -> str:
    return str(relation.sourceName())
