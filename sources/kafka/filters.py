"""Takes over the filters of a batch query that Spark pushes down."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from tidegate.enumerators.kafka.wanted import Comparison, PartitionFilter, WantedRecords

__all__ = ["take_over"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEVER_NULL = {("topic",), ("partition",), ("offset",)}
_COMPARISONS: dict[type[Filter], Comparison] = {
    EqualTo: "eq",
    EqualNullSafe: "eq",
    LessThan: "lt",
    LessThanOrEqual: "le",
    GreaterThan: "gt",
    GreaterThanOrEqual: "ge",
    In: "in",
}


def take_over(filters: Collection[Filter], wanted: WantedRecords | None = None) -> tuple[WantedRecords, list[Filter]]:
    """Return the records that pass the filters, and the filters that Spark still has to apply.

    A filter on ``topic``, ``partition`` or ``offset`` is taken over entirely.  A lower limit of ``timestamp`` only
    saves reading, so Spark also applies it.
    """
    wanted = wanted or WantedRecords()
    left: list[Filter] = []
    for predicate in filters:
        narrowed, is_exact = _narrowed(predicate, wanted)
        wanted = narrowed
        if not is_exact:
            left.append(predicate)
    return wanted, left


def _narrowed(predicate: Filter, wanted: WantedRecords) -> tuple[WantedRecords, bool]:
    if isinstance(predicate, IsNotNull):
        return wanted, predicate.attribute in _NEVER_NULL
    is_negated = isinstance(predicate, Not)
    compared: Any = predicate.child if isinstance(predicate, Not) else predicate
    comparison = _COMPARISONS.get(type(compared))
    if comparison is None:
        return wanted, False
    value = compared.value
    match compared.attribute:
        case ("topic" | "partition" as column,) if _are(value, str if column == "topic" else int, comparison):
            return wanted.with_filter(PartitionFilter(column, comparison, value, is_negated)), True
        case ("offset",) if _are(value, int, comparison) and not is_negated and comparison != "in":
            return _between(wanted, comparison, value), True
        case ("timestamp",) if isinstance(value, datetime) and value.tzinfo is not None and not is_negated:
            return _since(wanted, comparison, value), False
    return wanted, False


def _are(value: Any, kind: type, comparison: Comparison) -> bool:
    """Return whether a value, or each of several, is of a type; a null is left to Spark."""
    values = value if comparison == "in" else (value,)
    return all(isinstance(single, kind) and not isinstance(single, bool) for single in values)


def _between(wanted: WantedRecords, comparison: Comparison, offset: int) -> WantedRecords:
    match comparison:
        case "lt":
            return wanted.between(end=offset)
        case "le":
            return wanted.between(end=offset + 1)
        case "gt":
            return wanted.between(begin=offset + 1)
        case "ge":
            return wanted.between(begin=offset)
        case _:
            return wanted.between(offset, offset + 1)


def _since(wanted: WantedRecords, comparison: Comparison, at: datetime) -> WantedRecords:
    if comparison not in {"eq", "ge", "gt"}:
        return wanted
    # A record in the same millisecond may be before the time or not: Spark decides.
    from_ms = (at - _EPOCH) // timedelta(milliseconds=1)
    return wanted.since(from_ms) if from_ms > 0 else wanted
