"""What windows give: checked results of functions, and metrics.  Spark's own errors would not name the window."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidegate.add_ons import LATE_DROPPED, MORE_RECORDS, PASSING_STEPS
from tidegate.errors import FunctionError, did_you_mean
from tidegate.windows import Window

_WINDOWS = "windows"
PASSING_STEPS.append(re.compile(r"~?(?:MapInArrow pack\(__0#|TransformWithState\w* \w+\(__bucket#)"))


class Given(NamedTuple):
    """One result of a window of a key."""

    key: tuple[Any, ...]
    window: Window
    value: Any


def check_output(tag: object, outputs: Collection[str]) -> None:
    """Raise FunctionError for a side output that the windows do not have."""
    if tag not in outputs:
        raise FunctionError(
            f"A function of the windows gave a row to the side output {tag!r}{did_you_mean(str(tag), outputs)}, "
            f"but the windows have {', '.join(map(repr, outputs)) or 'none'}: name it by side_output({tag!r}, schema)."
        )


def checked(
    given: Sequence[Given], columns: Mapping[str, pa.DataType], keys: Collection[str], texts: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """Return the values of results by their columns.

    keys: columns that a result may also have, because a reduced row has them.
    texts: by column, the aggregate of SQL that the user wrote; empty for a function in Python.

    Raises FunctionError for a result that is not a mapping, has other columns, or a value of another type.
    """
    values = [_by_column(one, columns, keys) for one in given]
    for name, kind in columns.items():
        # A check of all values at once is ten times as fast; single values are checked only to find the wrong one.
        if not _fits([value[name] for value in values], kind):
            wrong = next(n for n, value in enumerate(values) if not _fits([value[name]], kind))
            if name in texts:
                raise FunctionError(
                    f"The aggregate {texts[name]!r} is {values[wrong][name]!r}, which is too large for its type {kind} "
                    f"{_where(given[wrong])}."
                )
            raise FunctionError(
                f"A function of the windows gave {values[wrong][name]!r} for the column {name!r}, "
                f"which is {kind} {_where(given[wrong])}."
            )
    return values


def _by_column(one: Given, columns: Mapping[str, pa.DataType], keys: Collection[str]) -> Mapping[str, Any]:
    value = one.value
    if not isinstance(value, Mapping):
        raise FunctionError(
            f"A function of the windows gave {value!r}, but a result must be a mapping of column names to values, "
            f"and a process function returns a list of them {_where(one)}."
        )
    if value.keys() == columns.keys():
        return value
    for name in value.keys() - columns.keys() - set(keys):
        raise FunctionError(
            f"A function of the windows gave the column {name!r}, which is not in its schema"
            f"{did_you_mean(str(name), columns)} {_where(one)}."
        )
    for name in columns:
        if name not in value:
            raise FunctionError(
                f"A function of the windows gave no value for the column {name!r} of its schema; "
                f"None stands for no value {_where(one)}."
            )
    return {name: value[name] for name in columns}


def _fits(values: list[Any], kind: pa.DataType) -> bool:
    try:
        pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _where(one: Given) -> str:
    key = one.key[0] if len(one.key) == 1 else one.key
    return f"(for key {key!r} and window {one.window})"


_numbers = count(1)  # Spark refuses a query in which two steps observe under one name


def observed(rows: DataFrame, dropped: Column, call: Column | None = None) -> DataFrame:
    """Return the rows; the progress of their query has how many were dropped, and what a bucket kept after a call."""
    metrics = [f.coalesce(f.sum(dropped), f.lit(0)).alias(LATE_DROPPED)]
    if call is not None:
        metrics.append(
            f.collect_list(f.when(call.isNotNull(), f.struct(call.bucket, call.windows, call.due))).alias(_WINDOWS)
        )
    return rows.observe(f"windows-{next(_numbers)}", *metrics)


def count_records(rows: DataFrame, records: Column) -> DataFrame:
    """Return the rows that tasks of a source made; the progress of their query has of how many records.

    records: how many records a row stands for; one of several packed rows may stand for all of them.
    """
    sums = (f.coalesce(f.sum(records - 1), f.lit(0)).alias(MORE_RECORDS),)
    return rows.observe(f"windows-{next(_numbers)}", *sums)


class KeptWindows(NamedTuple):
    """What windows of the operator keep in one bucket after a batch.

    number: how many windows are open.
    due: when the first of them is due in ms; None: it waits for rows.
    """

    number: int
    due: int | None


def kept_windows(metrics: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, int], KeptWindows]:
    """Return what windows keep, by operator and bucket, from the observed metrics of a batch.

    Only buckets that the batch called are among them.
    """
    return {
        (name, kept["bucket"]): KeptWindows(kept["windows"], kept.get("due"))
        for name, of_batch in metrics.items()
        if LATE_DROPPED in of_batch
        for kept in of_batch.get(_WINDOWS, ())
    }
