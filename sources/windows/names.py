"""Names of columns: those that windows use themselves, and those that Spark takes for one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from tidegate.errors import OptionError, did_you_mean

__all__ = ["check_columns", "check_no_twins", "check_result", "column_names"]

_OWN = re.compile(r"__(bucket|time|start|watermark|own_end|end|early_end|(key|argument|aggregate)_\d+)", re.IGNORECASE)
"""Columns that windows add to a stream, or to their results."""


def column_names(parameter: str, names: str | Sequence[str]) -> tuple[str, ...]:
    """Return names that the user gave, one or several.

    Raises OptionError for anything but names.
    """
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise OptionError(f"{parameter}={names!r} must be the name of a column, such as 'page'")
    return tuple(listed)


def check_columns(rows: DataFrame, names: Iterable[str]) -> None:
    """Raise OptionError if a stream has not each name just once, or has a column that is called as one of windows."""
    for name in names:
        if name not in rows.columns:
            hint = did_you_mean(name, rows.columns) or f"; it has {', '.join(rows.columns)}"
            raise OptionError(f"the stream has no column {name!r}{hint}")
        _check_once(rows, name, "")
    for name in rows.columns:
        _check_not_own("the stream has a column", name)


def check_no_twins(rows: DataFrame) -> None:
    """Raise OptionError if columns of a stream have one name, where whole rows are read by names."""
    for name in rows.columns:
        _check_once(rows, name, ", and the windows need whole rows")


def check_result(rows: DataFrame, name: str, others: Iterable[str]) -> None:
    """Raise OptionError if the name of a result is that of another column of windows.

    others: the names of all other columns.
    """
    (own, *taken) = _as_spark_sees(rows, [name, *others])
    if own in taken:
        raise OptionError(f"the result {name!r} has the name of another column of the windows")
    _check_not_own("a result is called", name)


def _check_once(rows: DataFrame, name: str, why: str) -> None:
    (own, *columns) = _as_spark_sees(rows, [name, *rows.columns])
    if columns.count(own) > 1:
        raise OptionError(f"the stream has several columns {name!r}{why}: rename or drop all but one of them")


def _as_spark_sees(rows: DataFrame, names: Sequence[str]) -> list[str]:
    """Return names of which equal ones are one name for Spark."""
    is_case_sensitive = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return [name if is_case_sensitive else name.lower() for name in names]


def _check_not_own(told: str, name: str) -> None:
    if _OWN.fullmatch(name):
        raise OptionError(f"{told} {name!r}, a name that windows use themselves: rename it")
    if "`" in name:
        raise OptionError(f"{told} {name!r}, a name with a backtick: rename it")
