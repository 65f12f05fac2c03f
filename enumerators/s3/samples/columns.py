"""Infers the columns of objects: those of their data, and those that their keys name."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.arrow.conform import position_of, spark_schema
from tidegate.readers.objects.values import ObjectFormat, S3Object

__all__ = ["infer_columns", "with_partition_columns"]

_LOG = logging.getLogger("tidegate.planner")


def infer_columns(
    object_format: ObjectFormat, samples: Sequence[S3Object], *, ignore_missing: bool, ignore_corrupt: bool
) -> pa.Schema:
    """Return the columns of some objects, in Spark's types.

    ignore_missing, ignore_corrupt: leave out samples that the query would also skip.

    Raises the errors of ``ObjectFormat.infer`` for a sample that cannot be read, and if no sample is left.
    """
    skipped = [ObjectGoneError] * ignore_missing + [CorruptDataError] * ignore_corrupt
    try:
        return spark_schema(object_format.infer(samples))
    except (*skipped,):
        usable = [sample for sample in samples if _is_usable(object_format, sample, skipped)]
        if not usable:
            raise
    return spark_schema(object_format.infer(usable))


def _is_usable(object_format: ObjectFormat, sample: S3Object, skipped: Sequence[type[Exception]]) -> bool:
    try:
        object_format.infer([sample])
    except (*skipped,) as error:
        _LOG.warning("a sample is left out of the inferred columns: %s", error)
        return False
    return True


def with_partition_columns(data: pa.Schema, named: Sequence[pa.Field]) -> pa.Schema:
    """Return the columns of the data, then those that keys name, which override the former as in Spark."""
    replaced = {position_of(field.name, data.names): field for field in named}
    fields = [replaced.pop(index, field) for index, field in enumerate(data)]
    taken = {field.name for field in fields}
    return spark_schema(pa.schema([*fields, *(field for field in named if field.name not in taken)]))
