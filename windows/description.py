"""The parts of windows as text.  By it a restart sees that stored state belongs to other windows.

Two parts with the same text can go on with each other's state, so the text holds names of classes and plain values,
but no code: the user may correct a function, and its windows go on.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any

from tidegate.windows.functions.results import (
    Aggregate,
    AggregateFunction,
    Process,
    ProcessWindowFunction,
    Reduce,
    WindowFunction,
)
from tidegate.windows.functions.sql import SqlAggregates
from tidegate.windows.rows import RowsReader

TRAITS = {"event_time", "first_row_decides", "frees_rows", "merges", "processing_time", "reads_rows", "stateless"}
"""Attributes that follow from the class of a part or from its other attributes."""

PARTS = (RowsReader, AggregateFunction, ProcessWindowFunction)
PLAIN = (bool, int, float, timedelta)


def described(part: Any) -> str:
    """Return the class of an assigner, trigger, evictor or function, with its public attributes of plain values.

    Plain values are numbers, texts, durations, enums, lists of them, and other parts, as in
    ``PurgingTrigger(nested=CountTrigger(max_count=3))``.  Durations of tidegate's own parts are in milliseconds.
    None gives ``none``.
    """
    if part is None:
        return "none"
    values = {name: _text(value) for name, value in sorted(vars(part).items()) if _counts(name)}
    fields = ", ".join(f"{name}={text}" for name, text in values.items() if text is not None)
    return f"{type(part).__name__}({fields})"


def described_function(function: WindowFunction) -> str:
    """Return the function that folds a window's rows, if one does, and the process function that follows."""
    if isinstance(function, Process):
        return f"process {described(function.process)}"
    kept = type(function).__name__.lower()
    if isinstance(function, Aggregate) and not isinstance(function, Reduce):
        is_sql = isinstance(function.function, SqlAggregates)
        kept += f" {_calls(function.function)}" if is_sql else f" {described(function.function)}"
    return kept if function.process is None else f"{kept}, then process {described(function.process)}"


def _calls(function: Any) -> str:
    return ", ".join(f"{call.function}({call.argument})" for call in function.aggregates.values())


def _counts(name: str) -> bool:
    return not name.startswith("_") and name not in TRAITS


def _text(value: Any) -> str | None:
    """Return a plain value as text; None: it is not plain."""
    if isinstance(value, PARTS):
        return described(value)
    if isinstance(value, list | tuple):
        texts = [_text(item) for item in value]
        return None if None in texts else f"[{', '.join(map(str, texts))}]"
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, str):
        return repr(value)
    return str(value) if isinstance(value, PLAIN) else None
