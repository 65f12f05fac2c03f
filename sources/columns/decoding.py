"""Columns of values whose schemas are in a registry, for queries of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pyarrow as pa
from pyspark.sql import Column

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.registry.columns import Form, Mode, column_of_subject
from tidegate.sources.registry_options import registry_config
from tidegate.spark_private import arrow_udf, from_arrow_type


def from_avro(
    data: Column | str,
    subject: str,
    options: Mapping[str, str],
    *,
    mode: Mode = "FAILFAST",
    headers: Column | str | None = None,
) -> Column:
    """Decode Avro values in Confluent's wire format.

    data: the binary column, such as "value".
    subject: its newest schema gives the type of the column, when this function is called; such as "orders-value".  Each
        value's own schema is resolved with it by the rules of Avro: a field that the value lacks has its default.
    options: ``schema.registry.url`` and the other options ``schema.registry.*`` of ``tidegate_kafka``.
    mode: the policy for a value that cannot be decoded: "FAILFAST" ends the query, "PERMISSIVE" makes it null, as in
        Spark's own ``from_avro``.
    headers: the column of headers, if the producer puts the id of the schema into ``__value_schema_id``.

    A field that Spark cannot hold, such as one that contains itself, is left out, with a warning.

    Raises OptionError for a wrong option, for a missing subject, and for a type that Spark cannot hold.
    Raises CorruptDataError for a subject of another form, and ConnectorError if the registry refuses.
    """
    return _decoded((data, headers), "avro", subject, options, mode, None)


def from_protobuf(
    data: Column | str,
    subject: str,
    options: Mapping[str, str],
    *,
    message: str | None = None,
    mode: Mode = "FAILFAST",
    headers: Column | str | None = None,
) -> Column:
    """Decode Protobuf values in Confluent's wire format to a struct.

    subject: its newest schema names the fields, which values have by their numbers.
    message: its full name, such as "shop.Order"; default: the first of the schema.  Values of others cannot be decoded.

    The rest is as in ``from_avro``.
    """
    return _decoded((data, headers), "protobuf", subject, options, mode, message)


def _decoded(
    columns: tuple[Column | str, Column | str | None],
    form: Form,
    subject: str,
    options: Mapping[str, str],
    mode: Mode,
    message: str | None,
) -> Column:
    if mode not in get_args(Mode):
        raise OptionError(f"mode is {mode!r}: expected FAILFAST or PERMISSIVE{did_you_mean(mode, get_args(Mode))}")
    column = column_of_subject(registry_config(options), form, subject, mode, message)

    def decode(values: pa.Array) -> pa.Array:
        return column.decoded(values)

    def decode_by_headers(values: pa.Array, of_records: pa.Array) -> pa.Array:
        return column.decoded(values, of_records)

    given = [column for column in columns if column is not None]
    function: Any = decode if len(given) == 1 else decode_by_headers
    function.__name__ = f"from_{form}"  # what Spark's plans show
    call: Any = arrow_udf(function, from_arrow_type(column.kind))  # type: ignore[call-overload]  # its stubs know no structs
    return call(*given)  # type: ignore[no-any-return]
