"""Spark expressions with aggregates in them, taken apart: what is computed per row, per window, and per result.

``sum(amount * 2) / count(*)`` is two columns that Spark computes for each row, two aggregates that the operator keeps
for each window, and a quotient that Spark computes of each result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType

from tidegate.errors import OptionError
from tidegate.sources.windows.description import as_written, normalized
from tidegate.windows import SqlAggregates

__all__ = ["Parts", "described_aggregates", "parts_of"]

_UNRESOLVED, _STAR = "UnresolvedFunction", "UnresolvedStar"
_GROUP = "agg_funcs"  # of aggregates in Spark's catalog
_KEPT = {"count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max", "count_if": "count"}
"""The operator's aggregate for each function of SQL."""


@dataclass(frozen=True)
class Parts:
    """Expressions with aggregates, taken apart.

    arguments: Spark expressions of each row, by the name of their column.
    aggregates: of each window, as ``SqlAggregates`` has them, by the name of their column.
    types: of the aggregates.
    results: Spark expressions over the aggregates, by the name of the result.
    """

    arguments: Mapping[str, str]
    aggregates: Mapping[str, str]
    types: Mapping[str, DataType]
    results: Mapping[str, str]

    def function(self) -> SqlAggregates:
        """Return what the operator does with the arguments of a window's rows."""
        return SqlAggregates(**self.aggregates)


def parts_of(rows: DataFrame, expressions: Mapping[str, str]) -> Parts:
    """Take expressions apart.

    rows: to which they refer.
    expressions: by the name of the result.

    Raises OptionError for an aggregate that the operator cannot keep.
    """
    taken = _TakenOut(rows)
    results = {name: taken.outer(taken.parsed(text), text).sql() for name, text in expressions.items()}
    whole = rows.groupBy().agg(*(f.expr(text).alias(name) for name, text in taken.texts.items()))
    types = {name: whole.schema[name].dataType for name in taken.texts}
    return Parts(taken.arguments, taken.aggregates, types, results)


def described_aggregates(rows: DataFrame, expressions: Mapping[str, str]) -> dict[str, str]:
    """Return for a description of windows the aggregates in expressions, each once, as the user wrote them.

    rows: to which they refer.

    An expression without an aggregate of Spark's own is described whole: it may be an aggregate of the user.
    """
    taken = _TakenOut(rows)
    calls = dict.fromkeys(call for text in expressions.values() for call in taken.described(text))
    return {"function": f"aggregate {', '.join(calls)}"}


class _TakenOut:
    """The aggregates that were taken out of expressions so far, each once."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows, self._spark = rows, rows.sparkSession
        self._case_sensitive = self._spark.conf.get("spark.sql.caseSensitive") == "true"
        self.arguments: dict[str, str] = {}
        self.aggregates: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def parsed(self, text: str) -> Any:
        """Return an expression in the form of Spark's parser."""
        return self._spark._jsparkSession.sessionState().sqlParser().parseExpression(text)  # noqa: SLF001

    def outer(self, node: Any, text: str) -> Any:
        """Return the expression with each aggregate replaced by a column of its own."""
        name = _function_name(node)
        if name in _KEPT:
            return self._kept(node, name, text)
        if name is not None and self._is_aggregate(name):
            raise OptionError(
                f"the aggregate {text!r} uses {name}, which Spark keeps and the operator of windows does not: "
                f"it keeps {', '.join(sorted(_KEPT))}; use a Python function, or a window that Spark plans"
            )
        children = [self.outer(child, text) for child in _list(node.children())]
        return node.withNewChildren(self._spark._jvm.PythonUtils.toSeq(children)) if children else node  # type: ignore[union-attr]  # noqa: SLF001

    def described(self, text: str) -> list[str]:
        """Return what tells one expression's aggregates from those of others."""
        return [*self._written_in(self.parsed(text))] or [self._normalized(text)]

    def _written_in(self, node: Any) -> Iterator[str]:
        name = _function_name(node)
        if name is not None and (name in _KEPT or self._is_aggregate(name)):
            yield self._normalized(as_written(node))
        else:
            for child in _list(node.children()):
                yield from self._written_in(child)

    def _normalized(self, text: str) -> str:
        return normalized(text, case_sensitive=self._case_sensitive)

    def _kept(self, node: Any, name: str, text: str) -> Any:
        """Return the column of an aggregate, or what gives it from columns."""
        if _KEPT[name] == "avg":
            kind = self._rows.groupBy().agg(f.expr(as_written(node))).schema[0].dataType
            if isinstance(kind, DecimalType):  # whose scale only Spark knows
                call = as_written(node).partition("(")[2]
                total, count = (self._aggregate(self.parsed(f"{part}({call}"), part, text) for part in ("sum", "count"))
                return self.parsed(f"CAST({total} / {count} AS {kind.simpleString()})")
        return self._column(self._aggregate(node, name, text))

    def _aggregate(self, node: Any, name: str, text: str) -> str:
        if node.isDistinct():
            raise OptionError(
                f"the aggregate {text!r} is of distinct values, which the operator of windows cannot keep"
            )
        arguments = _list(node.arguments())
        if len(arguments) != 1:
            raise OptionError(f"the aggregate {text!r} must have one argument")
        aggregate = f"{_KEPT[name]}({self._argument(node, name, arguments[0])})"
        known = next((column for column, same in self.aggregates.items() if same == aggregate), None)
        column = known or f"__aggregate_{len(self.aggregates)}"
        self.aggregates[column] = aggregate
        self.texts[column] = as_written(node)  # sql() makes an argument of a filter
        return column

    def _argument(self, node: Any, name: str, argument: Any) -> str:
        """Return the column of an aggregate's argument; ``*``: it counts all rows."""
        is_literal = argument.nodeName() == "Literal" and argument.value() is not None
        counts_rows = name == "count" and (argument.nodeName() == _STAR or is_literal)
        if counts_rows and not node.filter().isDefined():
            return "*"
        text = "1" if counts_rows else argument.sql()
        conditions = [text] if name == "count_if" else []
        if node.filter().isDefined():
            conditions.append(node.filter().get().sql())
        if conditions:
            text = f"CASE WHEN ({') AND ('.join(conditions)}) THEN {'1' if name == 'count_if' else text} END"
        wanted = self._normalized(text)
        known = next((column for column, same in self.arguments.items() if self._normalized(same) == wanted), None)
        column = known or f"__argument_{len(self.arguments)}"
        self.arguments[column] = text
        return column

    def _column(self, name: str) -> Any:
        return self._spark._jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute.quoted(name)  # type: ignore[union-attr]  # noqa: SLF001

    def _is_aggregate(self, name: str) -> bool:
        jvm: Any = self._spark._jvm  # noqa: SLF001
        catalog = self._spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        return bool(catalog.functionExists(identifier)) and catalog.lookupFunctionInfo(identifier).getGroup() == _GROUP


def _function_name(node: Any) -> str | None:
    if node.nodeName() != _UNRESOLVED:
        return None
    return str(node.nameParts().last()).lower()


def _list(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.size())]
