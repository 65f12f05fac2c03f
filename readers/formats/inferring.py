"""Infers the columns of a query from samples of its objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.errors import OptionError
from tidegate.readers.arrow.conform import spark_schema
from tidegate.readers.objects.values import S3Object

__all__ = ["inferred_schema"]


def inferred_schema(samples: Sequence[S3Object], schema_of: Callable[[S3Object], pa.Schema], bucket: str) -> pa.Schema:
    """Return the columns of the samples, in Spark's types; columns that only later samples have come last.

    schema_of: reads the columns of an object that is not empty.

    Raises OptionError if all samples are empty, if two disagree on a type, and for a type that Spark cannot hold.
    Errors of ``schema_of`` are passed on.
    """
    schemas = [spark_schema(schema_of(sample)) for sample in samples if sample.size]
    if not schemas:
        raise OptionError(f"no object of s3://{bucket} holds bytes to infer a schema from; give a schema")
    try:
        return spark_schema(pa.unify_schemas(schemas, promote_options="permissive"))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise OptionError(f"the objects disagree on the type of a column; give a schema: {problem}") from None
