"""Checks a query's options against the first objects: finds columns and times that none of them has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.enumerators.s3.samples.objects import Samples
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, ObjectGoneError, OptionError, did_you_mean
from tidegate.readers.arrow.conform import position_of
from tidegate.readers.event_time.range import RowTimes
from tidegate.readers.objects.values import ObjectFormat, S3Object

__all__ = ["check_columns", "check_path_times", "check_time_column", "columns_of_each", "lacking", "nothing_found"]

_LOG = logging.getLogger("tidegate.planner")
_PATTERN = frozenset("*?[{")
_MOST_NAMES = 20  # in one sentence


def nothing_found(path: str, samples: Samples) -> str:
    """Return a sentence which says that a path has no object with bytes, and why that may be."""
    patterns = _PATTERN.intersection(path)
    hint = "; a path takes no pattern: give the folder, and the pattern of names as pathGlobFilter" if patterns else ""
    left_out = "" if samples.left_out is None else f": {samples.left_out}"
    return f"there is no object with bytes under {path}{left_out}{hint}"


def columns_of_each(
    object_format: ObjectFormat, samples: Iterable[S3Object], enough: Callable[[Sequence[pa.Schema]], bool]
) -> list[pa.Schema]:
    """Return the columns of the samples, in order, until they are enough.

    A sample that cannot be read has no columns here; the reader raises its error later.
    """
    schemas: list[pa.Schema] = []
    for sample in samples:
        try:
            schemas.append(object_format.infer([sample]))
        except (BadRecordError, ConnectorError, CorruptDataError, ObjectGoneError, OptionError):
            continue
        if enough(schemas):
            break
    return schemas


def check_columns(wanted: Sequence[str], schemas: Sequence[pa.Schema], path: str) -> None:
    """Warn of columns that none of the samples has."""
    missing = lacking(wanted, schemas)
    if missing and schemas:
        _LOG.warning(
            "the schema has columns that none of the first %d objects under %s has, so they are null: %s",
            len(schemas),
            path,
            _listed(missing),
        )


def lacking(wanted: Sequence[str], schemas: Sequence[pa.Schema]) -> list[str]:
    """Return the columns that no schema has."""
    return [name for name in wanted if all(position_of(name, schema.names) is None for schema in schemas)]


def check_time_column(times: RowTimes, schemas: Sequence[pa.Schema]) -> None:
    """Raise OptionError if no schema has the event-time column.

    schemas: at least one.
    """
    if schemas and all(times.column_of(schema) is None for schema in schemas):
        names = list(dict.fromkeys(name for schema in schemas for name in _dotted(schema)))
        raise OptionError(
            f"eventTime is 'column:{times.column}', but there is no column {times.column!r} among {_listed(names)}"
            f"{did_you_mean(times.column, names)}"
        )


def check_path_times(times: PathTimes, samples: Sequence[S3Object]) -> None:
    """Raise OptionError if no sample names a time in its key.

    samples: at least one.
    """
    if samples and all(times.range_of(sample.key) is None for sample in samples):
        raise OptionError(
            f"eventTime is 'path:{times.template}', but none of the first {len(samples)} objects names such a time, "
            f"such as {samples[0].key!r}"
        )


def _dotted(fields: Iterable[pa.Field], before: str = "") -> Iterable[str]:
    """Yield the names of columns and of their fields, as eventTime takes them."""
    for field in fields:
        yield f"{before}{field.name}"
        if kinds.is_struct(field.type):
            yield from _dotted(field.type, f"{before}{field.name}.")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(repr, names[:_MOST_NAMES])) + more
