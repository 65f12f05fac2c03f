"""Spark expressions with aggregates, taken apart into a part for each row, each window, and each result.

Take ``sum(amount * 2) / count(*)``.  Spark computes two columns for each row.  The operator keeps two aggregates for
each window.  Spark computes the quotient of each result.

Descriptions of windows for checkpoints hold expressions as the user wrote them, which do not change with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DecimalType, DoubleType, StringType, StructType

from tidegate.add_ons import sentence_of
from tidegate.errors import OptionError
from tidegate.spark_private import analyzed_plan, java_of, java_session, setting
from tidegate.windows import SqlAggregates

_UNRESOLVED, _STAR = "UnresolvedFunction", "UnresolvedStar"
_GROUP = "agg_funcs"  # the group of aggregates in Spark's catalog
_KEPT = {"count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max", "count_if": "count"}
"""The operator's aggregate for each function of SQL."""


@dataclass(frozen=True)
class Argument:
    """What an aggregate takes of each row.

    column: a value; None: the whole row, which is counted.
    counts: rows with a value are counted: one gives 1, and one without a value 0.
    """

    column: Column | None
    counts: bool = False

    def of_row(self) -> Column:
        """Return what is added up or compared: a row that is counted gives 1."""
        if self.column is None:
            return f.lit(1).cast("tinyint")
        return self.column.isNotNull().cast("tinyint") if self.counts else self.column


@dataclass(frozen=True)
class Parts:
    """Expressions with aggregates, taken apart into sums, minima and maxima: parts of them merge to the whole.

    A count is a sum of ones.  An average is a sum divided by a count.

    arguments: what is taken of each row, by the name of the column.  kinds: its types, by these names.
    aggregates: the aggregates of each window, as ``SqlAggregates`` has them, by the name of their column.
    types: their types, by these names.
    texts: the aggregates as the user wrote them, by these names.
    results: what Spark computes from the aggregates, by the name of the result.
    """

    arguments: Mapping[str, Argument]
    kinds: Mapping[str, DataType]
    aggregates: Mapping[str, str]
    types: Mapping[str, DataType]
    texts: Mapping[str, str]
    results: Mapping[str, Column]

    def function(self) -> SqlAggregates:
        """Return the operator's function over the arguments of a window's rows."""
        return SqlAggregates(**self.aggregates)


def check_expression(rows: DataFrame, keys: Sequence[str], name: str, text: str) -> None:
    """Raise OptionError for an expression that does not aggregate the rows of a key."""
    try:
        aggregated = rows.groupBy(*(f.col(f"`{key}`") for key in keys)).agg(f.expr(text))
    except AnalysisException as error:
        raise OptionError(f"Spark cannot take {name}={text!r}: {sentence_of(error)}") from None
    analyzed = analyzed_plan(aggregated)
    if any(_has_aggregate_in_python(expression) for expression in _list(analyzed.expressions())):
        raise OptionError(
            f"{name}={text!r} has an aggregate that is a pandas function, which Spark cannot keep in a stream: "
            "use an AggregateFunction of tidegate.windows"
        )


def _has_aggregate_in_python(expression: Any) -> bool:
    return expression.nodeName() == "PythonUDAF" or any(map(_has_aggregate_in_python, _list(expression.children())))


def parts_of(rows: DataFrame, expressions: Mapping[str, str]) -> Parts:
    """Take expressions apart.

    Raises OptionError for an aggregate that the operator cannot keep, and if no expression has an aggregate.
    """
    texts = ", ".join(map(repr, expressions.values()))
    taken = _TakenOut(rows)
    results = {name: taken.column_of(taken.outer(text)) for name, text in expressions.items()}
    if not taken.texts:
        raise OptionError(f"the operator of windows needs an aggregate, such as count(*), and finds none in {texts}")
    try:
        of_rows = rows.select(*(argument.of_row().alias(name) for name, argument in taken.arguments.items()))
        whole = of_rows.groupBy().agg(*(f.expr(text).alias(name) for name, text in taken.aggregates.items()))
        whole.select(*(column.alias(name) for name, column in results.items()))
    except AnalysisException as error:
        raise OptionError(
            f"the operator of windows cannot take {texts} apart: {sentence_of(error)}; use a Python function, or a "
            "window that Spark plans"
        ) from None
    types = {name: whole.schema[name].dataType for name in taken.texts}
    for name, kind in types.items():
        is_collated = isinstance(kind, StringType) and not kind.isUTF8BinaryCollation()
        if is_collated or isinstance(kind, StructType | ArrayType):
            raise OptionError(
                f"{taken.texts[name]!r} is {kind.simpleString()}, and the operator of windows compares single "
                "values only, without a collation: use reduce(), or an AggregateFunction"
            )
    kinds = {name: of_rows.schema[name].dataType for name in taken.arguments}
    return Parts(taken.arguments, kinds, taken.aggregates, types, taken.texts, results)


def described_aggregates(rows: DataFrame, expressions: Mapping[str, str]) -> dict[str, str]:
    """Return the aggregates in expressions, each once and as the user wrote it, for a description of windows.

    An expression without an aggregate of Spark is described whole: it may be an aggregate of the user.
    """
    taken = _TakenOut(rows)
    calls = dict.fromkeys(call for text in expressions.values() for call in taken.described(text))
    return {"function": f"aggregate {', '.join(calls)}"}


class _TakenOut:
    """The aggregates that were taken out of expressions so far, each once."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows, self._spark = rows, rows.sparkSession
        self._case_sensitive = setting(self._spark, "spark.sql.caseSensitive") == "true"
        self.arguments: dict[str, Argument] = {}
        self._columns: dict[tuple[object, ...], str] = {}  # of arguments, by what they are
        self.aggregates: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def parsed(self, text: str) -> Any:
        """Return an expression in the form of Spark's parser."""
        return java_session(self._spark).sessionState().sqlParser().parseExpression(text)

    def column_of(self, node: Any) -> Column:
        """Return an expression in the form of Spark's parser as a column."""
        return Column(java_of(self._spark).org.apache.spark.sql.classic.ExpressionUtils.column(node))

    def outer(self, text: str) -> Any:
        """Return the expression, in the form of Spark's parser, with a column of its own for each aggregate."""
        return self._outer(self.parsed(text), text)

    def _outer(self, node: Any, text: str) -> Any:
        name = _function_name(node)
        if name in _KEPT:
            return self._kept(node, name, text)
        if self._is_aggregate(node):
            raise OptionError(
                f"the aggregate {text!r} uses {as_written(node)}, which Spark keeps and the operator of windows does "
                f"not: it keeps {', '.join(sorted(_KEPT))}; use a Python function, or a window that Spark plans"
            )
        children = [self._outer(child, text) for child in _list(node.children())]
        return node.withNewChildren(java_of(self._spark).PythonUtils.toSeq(children)) if children else node

    def described(self, text: str) -> list[str]:
        """Return the aggregates of one expression, normalized: the same texts mean the same aggregates."""
        return self._written_in(self.parsed(text)) or [self._normalized(text)]

    def _written_in(self, node: Any) -> list[str]:
        if self._is_aggregate(node):
            return [self._normalized(as_written(node))]
        return [call for child in _list(node.children()) for call in self._written_in(child)]

    def _normalized(self, text: str) -> str:
        return normalized(text, case_sensitive=self._case_sensitive)

    def _kept(self, node: Any, name: str, text: str) -> Any:
        """Return the column of an aggregate, or what computes it from columns, in the form of Spark's parser."""
        if node.isDistinct():
            raise OptionError(
                f"the aggregate {text!r} is of distinct values, which the operator of windows cannot keep"
            )
        if len(_list(node.arguments())) != 1:
            raise OptionError(f"the aggregate {text!r} must have one argument")
        kept = _KEPT[name]
        is_text = kept in {"sum", "avg"} and self._is_text(node)  # Spark adds up texts as doubles
        if kept != "avg":
            return self.parsed(self._aggregate(node, kept, self._argument(node, name, as_double=is_text)))
        mean = self._rows.groupBy().agg(f.expr(as_written(node))).schema[0].dataType
        value = self._argument(node, "avg", as_double=isinstance(mean, DoubleType))
        count = self._argument(node, "count", as_double=is_text)
        total = self._aggregate(node, "sum", value)
        number = self._aggregate(node, "count", count)
        if isinstance(mean, DecimalType):
            return self._mean_of_decimals(total, number, mean)
        return self.parsed(f"CAST({total} / {number} AS {mean.simpleString()})")

    def _mean_of_decimals(self, total: str, number: str, kind: DecimalType) -> Any:
        """Return a mean as Spark's avg computes it: a division in SQL has fewer digits, or too few for large sums."""
        types = java_of(self._spark).org.apache.spark.sql.types
        expressions = java_of(self._spark).org.apache.spark.sql.catalyst.expressions
        mean = expressions.DecimalDivideWithOverflowCheck(
            self.parsed(total),
            self.parsed(f"CAST({number} AS DECIMAL(20, 0))"),
            types.DecimalType(kind.precision, kind.scale),
            None,
            setting(self._spark, "spark.sql.ansi.enabled") != "true",
        )
        # Spark takes a sum of null for one that was too large.
        nothing = self.parsed(f"CAST(NULL AS {kind.simpleString()})")
        return expressions.If(self.parsed(f"{total} IS NULL"), nothing, mean)

    def _aggregate(self, node: Any, kept: str, argument: str) -> str:
        aggregate = f"{'sum' if kept == 'count' else kept}({argument})"
        known = next((column for column, same in self.aggregates.items() if same == aggregate), None)
        column = known or f"__aggregate_{len(self.aggregates)}"
        self.aggregates[column] = aggregate
        self.texts[column] = as_written(node)  # sql() would write a filter as an argument
        return column

    def _is_text(self, node: Any) -> bool:
        (argument,) = _list(node.arguments())
        return isinstance(self._rows.select(self.column_of(argument)).schema[0].dataType, StringType)

    def _argument(self, node: Any, name: str, *, as_double: bool = False) -> str:
        """Return the column of what an aggregate takes of each row."""
        (argument,) = _list(node.arguments())
        is_literal = argument.nodeName() == "Literal" and argument.value() is not None
        counts_rows = name == "count_if" or (name == "count" and (argument.nodeName() == _STAR or is_literal))
        conditions = [argument] if name == "count_if" else []
        conditions += [node.filter().get()] if node.filter().isDefined() else []
        wanted = (
            name in {"count", "count_if"},
            as_double,
            *map(self._identity, conditions),
            None if counts_rows else self._identity(argument),
        )
        if wanted not in self._columns:
            column = None if counts_rows else self.column_of(argument)
            if as_double and column is not None:
                column = column.cast("double")
            if conditions:
                holds = reduce(and_, map(self.column_of, conditions))
                column = f.when(holds, f.lit(1) if column is None else column)
            self._columns[wanted] = f"__argument_{len(self.arguments)}"
            self.arguments[self._columns[wanted]] = Argument(column, counts=name in {"count", "count_if"})
        return self._columns[wanted]

    def _identity(self, node: Any) -> tuple[str, str]:
        """Return what distinguishes an expression from others: Spark's own text lacks subqueries.

        The user's text is not all of it: in Spark's parser a predicate, such as ``a LIKE b``, begins after ``a``.
        """
        return self._normalized(as_written(node)), self._normalized(str(node.sql()))

    def _is_aggregate(self, node: Any) -> bool:
        if node.nodeName() == "AggregateExpression":  # Spark's parser knows first, last and any_value itself
            return True
        name = _function_name(node)
        if name is None or name in _KEPT:
            return name is not None
        catalog = java_session(self._spark).sessionState().catalog()
        identifier = java_of(self._spark).org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        if not catalog.functionExists(identifier):
            return False
        group = catalog.lookupFunctionInfo(identifier).getGroup()
        return group == _GROUP or (not group and self._is_aggregate_of_the_user(node))

    def _is_aggregate_of_the_user(self, node: Any) -> bool:
        """Return whether Spark plans a selection with the function as an aggregation; its catalog does not say."""
        if any(map(self._written_in, _list(node.children()))):
            return False  # an aggregate contains no other aggregate
        selected = self._rows.select(f.expr(as_written(node)))
        return bool(analyzed_plan(selected).nodeName() == "Aggregate")


def _function_name(node: Any) -> str | None:
    if node.nodeName() != _UNRESOLVED:
        return None
    return str(node.nameParts().last()).lower()


def _list(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.size())]


_QUOTES = "'\"`"
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[\w.]+|[^\w\s]""")


def described_stream(rows: DataFrame, keys: Sequence[str], event_time: str | None) -> dict[str, str]:
    """Return the columns of keys and event times as a description: texts by the names of its parts."""
    types = (f"{key} {rows.schema[key].dataType.simpleString()}" for key in keys)
    return {"key": ", ".join(types), "event time": event_time or "none"}


def as_written(node: Any) -> str:
    """Return the text from which Spark's parser made an expression.

    Spark's own text of an expression (``sql()``) may change with Spark; old state would then be refused.
    """
    origin = node.origin()
    if not (origin.sqlText().isDefined() and origin.startIndex().isDefined() and origin.stopIndex().isDefined()):
        return str(node.sql())
    return str(origin.sqlText().get())[origin.startIndex().get() : origin.stopIndex().get() + 1]


def normalized(text: str, *, case_sensitive: bool = False) -> str:
    """Return an expression without differences of white space and, as in Spark's setting, case."""
    tokens = [token if case_sensitive or token[0] in _QUOTES else token.lower() for token in _TOKEN.findall(text)]
    spaced = (" " * (_is_word(one) and _is_word(other)) + other for one, other in pairwise(tokens))
    return "".join([*tokens[:1], *spaced])


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] in {"_", *_QUOTES}
