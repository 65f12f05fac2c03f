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


def from_avro(data: Column | str, subject: str, options: Mapping[str, str], *, mode: Mode = "FAILFAST") -> Column:
    """Decode Avro values in Confluent's wire format to a struct.

    data: the binary column, such as "value".
    subject: its newest schema gives the type of the struct, when this function is called; such as "orders-value".
        Each value is decoded by its own schema.  Fields match by name, and a field that this schema lacks is null.  A
        record of another name cannot be decoded, unless the newest schema has that name as an alias.
    options: ``schema.registry.url`` and the other options ``schema.registry.*`` of ``tidegate_kafka``.
    mode: the policy for a value that cannot be decoded: "FAILFAST" ends the query, "PERMISSIVE" makes it null, as in
        Spark's own ``from_avro``.

    Raises OptionError for a wrong option, for a missing subject, and for a type that Spark cannot hold.
    Raises CorruptDataError for a subject of another form, and ConnectorError if the registry refuses.
    """
    return _decoded(data, "avro", subject, options, mode, None)


def from_protobuf(
    data: Column | str,
    subject: str,
    options: Mapping[str, str],
    *,
    message: str | None = None,
    mode: Mode = "FAILFAST",
) -> Column:
    """Decode Protobuf values in Confluent's wire format to a struct.

    message: its full name, such as "shop.Order"; default: the first of the schema.  Values of others cannot be decoded.

    The rest is as in ``from_avro``.
    """
    return _decoded(data, "protobuf", subject, options, mode, message)


def _decoded(
    data: Column | str, form: Form, subject: str, options: Mapping[str, str], mode: Mode, message: str | None
) -> Column:
    if mode not in get_args(Mode):
        raise OptionError(f"mode is {mode!r}: expected FAILFAST or PERMISSIVE{did_you_mean(mode, get_args(Mode))}")
    column = column_of_subject(registry_config(options), form, subject, mode, message)

    def decode(values: pa.Array) -> pa.Array:
        return column.decoded(values)

    decode.__name__ = f"from_{form}"  # what Spark's plans show
    call: Any = arrow_udf(decode, from_arrow_type(column.kind))  # type: ignore[call-overload]  # its stubs know no structs
    return call(data)  # type: ignore[no-any-return]
