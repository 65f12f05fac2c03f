"""A condition in SQL that selects rows, evaluated by Arrow with SQL's three-valued logic.

    condition  = condition OR condition | condition AND condition | NOT condition | (condition)
               | operand (= | <> | < | <= | > | >=) operand | column [NOT] IN (literal, ...)
               | column IS [NOT] NULL | column
    operand    = column | literal
    literal    = number | 'text' | TRUE | FALSE | DATE 'text' | TIMESTAMP 'text'

A row is selected if its condition is true, and neither false nor unknown.  Operands are coerced as Spark does it
(AnsiTypeCoercion): integers and decimals to decimals, any number and a float to a double, a text to the time or date of
a column.  Whatever Spark would do by the session's time zone or by a cast of a column's texts is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from math import isinf
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import did_you_mean, needing
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import integers, one_text
from tidegate.readers.arrow.conform import MOST_DIGITS, position_of
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.arrow.text_values import date_of, timestamp_of

GRAMMAR = (
    "expected comparisons, IN and IS NULL over columns and literals, joined by AND, OR and NOT, such as "
    "value.amount > 5 AND topic IN ('orders', 'returns')"
)
_INSTANTS = {"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of the decimals to which Spark widens integers, by their bits
_COMPARED: Mapping[str, str] = {
    "EQ": "equal",
    "NEQ": "not_equal",
    "LT": "less",
    "LTE": "less_equal",
    "GT": "greater",
    "GTE": "greater_equal",
}


class Condition(Protocol):
    """A condition over the columns of a source; picklable.

    paths: the columns that it takes, each by the names that lead to it.
    """

    @property
    def paths(self) -> Collection[tuple[str, ...]]: ...  # noqa: D102 - see above

    def __call__(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it is true, or null if that is not known."""


def condition_of(text: str, schema: pa.Schema) -> Condition:
    """Return the condition that a text describes.

    Raises ValueError, one sentence, for whatever is not in the grammar, for a column that the schema lacks, and for
    operands that cannot be compared here as Spark compares them.  Raises InstallationError without the extra ``where``.
    """
    with needing("where", "the option where"):
        import sqlglot
        from sqlglot.errors import SqlglotError
    if "\\" in text:
        raise ValueError(f"{GRAMMAR}; a text has no escapes")
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError as error:
        near = next((fault.get("highlight") for fault in getattr(error, "errors", ())), None)
        raise ValueError(f"{GRAMMAR}; it is malformed{f' at {near!r}' if near else ''}") from None
    return _Binder(schema).condition(tree)


@dataclass(frozen=True, slots=True)
class _Column:
    path: tuple[str, ...]
    kind: pa.DataType

    @property
    def paths(self) -> Collection[tuple[str, ...]]:
        return [self.path]

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        column = rows.column(self.path[0])
        return pc.struct_field(column, [*self.path[1:]]) if self.path[1:] else column

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any
    kind: pa.DataType

    def __call__(self, _: pa.RecordBatch) -> pa.Scalar:
        # pa.scalar would import pandas, see readers/arrow/arrays.py.
        if kinds.is_date32(self.kind):
            return integers(np.array([self.value], np.int32), self.kind)[0]
        if kinds.is_timestamp(self.kind):
            return integers(np.array([self.value], np.int64), self.kind)[0]
        return one_text(str(self.value).encode()).cast(pa.string()).cast(self.kind)

    @property
    def name(self) -> str:
        return repr(self.value) if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True, slots=True)
class _Compared:
    function: str
    left: _Column | _Literal
    right: _Column | _Literal
    kind: pa.DataType

    @property
    def paths(self) -> Collection[tuple[str, ...]]:
        return [operand.path for operand in (self.left, self.right) if isinstance(operand, _Column)]

    def __call__(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        left, right = (_cast(operand(rows), self.kind) for operand in (self.left, self.right))
        compared = getattr(pc, self.function)(left, right)
        return _with_nan(self.function, left, right, compared) if kinds.is_floating(self.kind) else compared


@dataclass(frozen=True, slots=True)
class _In:
    column: _Column
    items: tuple[_Literal, ...]
    kind: pa.DataType

    @property
    def paths(self) -> Collection[tuple[str, ...]]:
        return self.column.paths

    def __call__(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        column = _cast(self.column(rows), self.kind)
        return reduce(pc.or_kleene, (pc.equal(column, _cast(item(rows), self.kind)) for item in self.items))


@dataclass(frozen=True, slots=True)
class _IsNull:
    column: _Column

    @property
    def paths(self) -> Collection[tuple[str, ...]]:
        return self.column.paths

    def __call__(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        return self.column(rows).is_null()


@dataclass(frozen=True, slots=True)
class _Joined:
    function: str
    parts: tuple[Condition, ...]

    @property
    def paths(self) -> Collection[tuple[str, ...]]:
        return {path for part in self.parts for path in part.paths}

    def __call__(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        return getattr(pc, self.function)(*(part(rows) for part in self.parts))


def _with_nan(function: str, left: Any, right: Any, compared: pa.Array) -> pa.BooleanArray:
    """Return a comparison of doubles in which NaN is equal to itself and above all others, as in Spark."""
    first, second = pc.is_nan(left), pc.is_nan(right)
    both, only_first = pc.and_kleene(first, second), pc.and_kleene(first, pc.invert(second))
    only_second = pc.and_kleene(second, pc.invert(first))
    if function == "not_equal":
        return pc.and_kleene(compared, pc.invert(both))
    more = {
        "equal": [both],
        "less": [only_second],
        "less_equal": [only_second, both],
        "greater": [only_first],
        "greater_equal": [only_first, both],
    }
    return reduce(pc.or_kleene, more[function], compared)


def _cast(values: Any, kind: pa.DataType) -> Any:
    if values.type == kind:
        return values
    if kinds.is_decimal(values.type) and kinds.is_floating(kind):
        values = values.cast(pa.string())  # Arrow rounds the last digit of a decimal wrongly
    return values.cast(kind, safe=not kinds.is_floating(kind))


class _Binder:
    """Turns the tree of a library into conditions over the columns of a schema; refuses what it does not know."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def condition(self, node: Any) -> Condition:  # noqa: PLR0911 - one for each kind
        kind = type(node).__name__
        if kind == "Paren":
            return self.condition(_only(node, "this"))
        if kind in {"And", "Or"}:
            left, right = map(self.condition, _parts(node, "this", "expression"))
            return _Joined(f"{kind.lower()}_kleene", (left, right))
        if kind == "Not":
            return _Joined("invert", (self.condition(_only(node, "this")),))
        if kind in _COMPARED:
            return self._compared(kind, *map(self._operand, _parts(node, "this", "expression")))
        if kind == "In":
            column, items = _parts(node, "this", "expressions")
            return self._in(self._column(column), [self._literal(item) for item in items])
        if kind == "Is":
            column, null = _parts(node, "this", "expression")
            return _IsNull(self._column(column)) if type(null).__name__ == "Null" else _refuse(null)
        column = self._column(node)
        if not kinds.is_boolean(column.kind):
            raise ValueError(
                f"{GRAMMAR}; the column {column.name} is of the type {ddl_of(column.kind)}, not a condition"
            )
        return column

    def _compared(self, kind: str, left: _Column | _Literal, right: _Column | _Literal) -> Condition:
        if isinstance(left, _Literal) and isinstance(right, _Literal):
            raise ValueError(f"{GRAMMAR}; {left.name} and {right.name} are both literals")  # noqa: TRY004
        left, right = _of_type(left, right), _of_type(right, left)
        return _Compared(_COMPARED[kind], left, right, _common(left, right))

    def _in(self, column: _Column, items: Sequence[_Literal]) -> Condition:
        typed = [_of_type(item, column) for item in items]
        widest = reduce(lambda kind, item: _common(_Column(column.path, kind), item), typed, column.kind)
        return _In(column, tuple(typed), widest)  # type: ignore[arg-type]  # a literal stays one

    def _operand(self, node: Any) -> _Column | _Literal:
        return self._column(node) if type(node).__name__ in {"Column", "Dot"} else self._literal(node)

    def _column(self, node: Any) -> _Column:
        if type(node).__name__ not in {"Column", "Dot"} or any(
            type(part).__name__ != "Identifier" for part in node.parts
        ):
            _refuse(node)
        names = [part.name for part in node.parts]
        path: list[str] = []
        kind: pa.DataType = pa.struct(list(self._schema))
        for name in names:
            fields = [field.name for field in kind] if kinds.is_struct(kind) else []
            place = position_of(name, fields)
            if place is None:
                known = [".".join([*path, field]) for field in fields]
                raise ValueError(f"there is no column {'.'.join(names)!r}{did_you_mean('.'.join(names), known)}")
            path.append(fields[place])
            kind = kind.field(place).type
        return _Column(tuple(path), kind)

    def _literal(self, node: Any, sign: str = "") -> _Literal:  # noqa: PLR0911 - one for each kind
        kind = type(node).__name__
        if kind == "Paren":
            return self._literal(_only(node, "this"), sign)
        if kind == "Neg" and not sign:
            return self._literal(_only(node, "this"), "-")
        if kind == "Boolean" and not sign:
            return _Literal(bool(node.this), pa.bool_())
        if kind == "Literal":
            if not node.is_string:
                return _number(sign + node.this)
            return _Literal(node.this, pa.string()) if not sign else _refuse(node)
        if kind == "Cast" and not sign:
            text, wanted = _parts(node, "this", "to", ignored=("_type",))
            if type(text).__name__ == "Literal" and text.is_string:
                if wanted.this.name == "DATE":
                    return _time_of(text.this, pa.date32())
                if wanted.this.name in _INSTANTS:
                    return _time_of(text.this, pa.timestamp("us", "UTC"))
        return _refuse(node)


def _parts(node: Any, *names: str, ignored: Sequence[str] = ()) -> list[Any]:
    """Return the named parts of a node; refuse a node that has others, or lacks one."""
    others = {name for name, value in node.args.items() if value and name not in {*names, *ignored}}
    found = [node.args.get(name) for name in names]
    return _refuse(node) if others or any(part is None or part == [] for part in found) else found


def _only(node: Any, name: str) -> Any:
    return _parts(node, name)[0]


def _refuse(node: Any) -> NoReturn:
    raise ValueError(f"{GRAMMAR}; not {node.sql(dialect='spark')!r}")


def _number(text: str) -> _Literal:
    """Return a number with the type that Spark gives it."""
    if "e" in text.lower():
        if isinf(float(text)):
            raise ValueError(f"{text} is beyond the range of a double")
        return _Literal(float(text), pa.float64())
    value = Decimal(text)
    digits, scale = value.as_tuple().digits, -int(value.as_tuple().exponent)
    if not scale and abs(value) < 2**63:
        return _Literal(int(value), pa.int32() if abs(value) < 2**31 else pa.int64())
    if max(len(digits), scale) > MOST_DIGITS:
        raise ValueError(f"{text} has more than {MOST_DIGITS} digits")
    return _Literal(value, pa.decimal128(max(len(digits), scale), scale))


def _time_of(text: str, kind: pa.DataType) -> _Literal:
    """Return a text as a date or a time.  Raises ValueError for other texts, and if a session's zone would decide."""
    if kinds.is_date32(kind):
        days = date_of(text)
        if days is None:
            raise ValueError(f"{text!r} is not a date")
        return _Literal(days, kind)
    without_zone = timestamp_of(text, has_zone=False)
    if kind.tz is None and without_zone is not None:
        return _Literal(without_zone, kind)
    if kind.tz is None or without_zone is not None:
        wanted = "no zone, as in '2026-11-21T12:00:00'" if kind.tz is None else "a zone, as in '2026-11-21T12:00:00Z'"
        raise ValueError(f"the time {text!r} needs {wanted}")
    micros = timestamp_of(text, has_zone=True)
    if micros is None:
        raise ValueError(f"{text!r} is not a time, such as '2026-11-21T12:00:00Z'")
    return _Literal(micros, kind)


def _of_type(operand: _Column | _Literal, other: _Column | _Literal) -> _Column | _Literal:
    """Return a text as a time or a date if it is compared with one."""
    is_text = isinstance(operand, _Literal) and kinds.is_string(operand.kind)
    if is_text and (kinds.is_timestamp(other.kind) or kinds.is_date32(other.kind)):
        return _time_of(operand.value, other.kind)  # type: ignore[union-attr]  # it is a literal
    return operand


def _common(left: _Column | _Literal, right: _Column | _Literal) -> pa.DataType:
    """Return the type as which Spark compares two operands.  Raises ValueError if Spark has none, or this module."""
    one, other = left.kind, right.kind
    if one == other and not kinds.is_nested(one) and not kinds.is_binary(one):
        return one
    are = [kinds.is_integer(kind) or kinds.is_decimal(kind) or kinds.is_floating(kind) for kind in (one, other)]
    if all(are):
        if kinds.is_floating(one) or kinds.is_floating(other):
            return pa.float64()
        if kinds.is_integer(one) and kinds.is_integer(other):
            return pa.int64()
        whole, scale = map(max, zip(*map(_digits, (one, other)), strict=True))
        if whole + scale <= MOST_DIGITS:
            return pa.decimal128(whole + scale, scale)
    hint = ""
    if any(kinds.is_binary(kind) for kind in (one, other)):
        hint = "; keyFormat and valueFormat 'string' make texts of bytes"
    both = f"{left.name}, of the type {ddl_of(one)}, and {right.name}, of the type {ddl_of(other)},"
    raise ValueError(f"{both} cannot be compared{hint}")


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Return the digits before and after the point that a number of a type may have."""
    return (kind.precision - kind.scale, kind.scale) if kinds.is_decimal(kind) else (_DIGITS[kind.bit_width], 0)
