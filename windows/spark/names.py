"""Names of columns: those that windows use themselves, and those that are equal for Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from tidegate.add_ons import ADD_ON_WATERMARK
from tidegate.errors import OptionError, did_you_mean
from tidegate.spark_private import setting

_OWN = re.compile(
    r"__(bucket|time|start|watermark|records|own_end|end|outer_end|call|many|(many|key|argument|aggregate)_\d+)",
    re.IGNORECASE,
)
"""Columns that windows add to a stream, or to their results."""


def column_names(parameter: str, names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names that the user gave: one or several.

    Raises OptionError for anything but names.
    """
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return tuple(names)
    return (column_name(parameter, names),)


def column_name(parameter: str, name: object) -> str:
    """Return the one name that the user gave.

    Raises OptionError for anything but a name.
    """
    if not isinstance(name, str):
        raise OptionError(f"{parameter}={name!r} must be the name of a column, such as 'page'")
    return name


def check_columns(rows: DataFrame, names: Iterable[str]) -> None:
    """Raise OptionError if a stream lacks a name or has it twice, or if it has a name that windows use."""
    for name in names:
        if name not in rows.columns:
            hint = did_you_mean(name, rows.columns) or f"; it has {', '.join(rows.columns)}"
            raise OptionError(f"the stream has no column {name!r}{hint}")
        _check_once(rows, name, "")
    for name in rows.columns:
        _check_not_own("the stream has a column", name)


def check_no_twins(rows: DataFrame) -> None:
    """Raise OptionError if two columns of a stream have one name; windows read whole rows by names."""
    for name in rows.columns:
        _check_once(rows, name, ", and the windows need whole rows")


def check_source(columns: Iterable[str]) -> None:
    """Raise OptionError if a source has a column with the name of its watermark's column."""
    for column in columns:
        if column.lower() == ADD_ON_WATERMARK:
            raise OptionError(
                f"a source of the stream has a column {column!r}, a name that windows use themselves: the source must "
                "give it another name, because a step that renames or drops it comes too late"
            )


def check_keys(rows: DataFrame, keys: Sequence[str], others: Sequence[str]) -> None:
    """Raise OptionError if no key is named, one is named twice, or one has the name of another column of windows.

    others: the names of all other columns, without those of results.
    """
    if not keys:
        raise OptionError("windows need a key: name at least one column")
    seen, taken = _as_spark_sees(rows, keys), _as_spark_sees(rows, others)
    for place, name in enumerate(keys):
        if seen[place] in seen[:place]:
            raise OptionError(f"the key {name!r} is named twice")
        if seen[place] in taken:
            raise OptionError(f"the key {name!r} has the name of a column of the results; rename it first")


def check_result(rows: DataFrame, name: str, others: Iterable[str]) -> None:
    """Raise OptionError if the name of a result is that of another column of windows."""
    (own, *taken) = _as_spark_sees(rows, [name, *others])
    if own in taken:
        raise OptionError(f"the result {name!r} has the name of another column of the windows")
    _check_not_own("a result is called", name)


def _check_once(rows: DataFrame, name: str, why: str) -> None:
    (own, *columns) = _as_spark_sees(rows, [name, *rows.columns])
    if columns.count(own) > 1:
        raise OptionError(f"the stream has several columns {name!r}{why}: rename or drop all but one of them")


def _as_spark_sees(rows: DataFrame, names: Sequence[str]) -> list[str]:
    """Return names that are equal where Spark takes them for one name."""
    is_case_sensitive = setting(rows.sparkSession, "spark.sql.caseSensitive") == "true"
    return [name if is_case_sensitive else name.lower() for name in names]


def _check_not_own(what: str, name: str) -> None:
    if _OWN.fullmatch(name):
        raise OptionError(f"{what} {name!r}, a name that windows use themselves: rename it")
    check_no_backtick(what, name)


def check_no_backtick(what: str, name: str) -> None:
    """Raise OptionError for a name that Spark would take for a quoted one.  what: the beginning of the sentence."""
    if "`" in name:
        raise OptionError(f"{what} {name!r}, a name with a backtick: rename it")
