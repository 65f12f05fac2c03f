"""Columns for queries of users: values whose schemas are in a registry, and the source's own watermark.

The Kafka source has the same options ``schema.registry.*``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampNTZType, TimestampType

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.registry.columns import Form, Mode, column_of_subject
from tidegate.sources.options import sentence_of
from tidegate.sources.registry_options import registry_config
from tidegate.sources.tasks import ADD_ON_WATERMARK, SOURCE_WATERMARK, WATERMARK_ROW_US
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
        raise OptionError(f"mode is {mode!r}: expected FAILFAST or PERMISSIVE{did_you_mean(str(mode), get_args(Mode))}")
    for name, text, example in (
        ("subject", subject, "orders-value"),
        ("message", "" if message is None else message, "shop.Order"),
    ):
        if not isinstance(text, str):
            raise OptionError(f"{name} is {text!r}, but it must be a text, such as {example!r}")
    for name, data in zip(("data", "headers"), columns, strict=True):
        if not isinstance(data, Column | str) and (name == "data" or data is not None):
            raise OptionError(f"{name} is {data!r}, but it must be a column or its name")
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


_EPOCH = "timestamp_ntz'1970-01-01'"  # of no time zone
_DAYS = {"month": 31, "year": 12 * 31}
_INTERVAL_KEYWORD = re.compile(r"\A\s*interval\b", re.IGNORECASE)
_MONTHS = re.compile(r"(\d+)\s+(month|year)s?\b", re.IGNORECASE)


def with_source_watermark(rows: DataFrame, event_time: str | None = None, delay: str | None = None) -> DataFrame:
    """Let Spark's watermark follow the source's watermark, and drop the rows that only hold it.

    rows: a stream of a tidegate source with ``sourceWatermark``, as ``load`` returns it.  With ``rows``, the
        watermark also moves while no data comes.
    event_time: the time column of windows or joins.  Spark's watermark on it is the greatest time less ``delay``, and
        at least the source's watermark, so a source that waits for the others of its group does not hold their state.
        None: Spark's watermark is on the column ``source_watermark``, one millisecond behind the source's, for the
        event-time timers of transformWithState.
    delay: as in ``withWatermark``, with ``event_time`` only.  Rows further behind the greatest time are late: it is the
        out-of-orderness plus ``maxDrift`` where a query is live, or runs again.  Rows that the source's own watermark
        has passed are late in any case, so set ``maxOutOfOrderness`` as well.

    Raises OptionError if a column is missing or no timestamp, and for a wrong delay.
    """
    check_is_frame("with_source_watermark", rows)
    if (event_time is None) != (delay is None):
        raise OptionError(
            f"with_source_watermark() has event_time={event_time!r} and delay={delay!r}, but it takes both or neither; "
            "the delay is the out-of-orderness, plus maxDrift where a query is live, or runs again"
        )
    if not isinstance(event_time, str | None):
        raise OptionError(f"event_time is {event_time!r}, but it must be the name of a column, such as 'timestamp'")
    for name in (SOURCE_WATERMARK, SOURCE_WATERMARK if event_time is None else event_time):
        if name not in rows.columns:
            raise OptionError(
                f"the DataFrame has no column {name!r}; set sourceWatermark, and use it before other steps"
            )
    if event_time is None or delay is None:
        return _without_watermark_rows(rows.withWatermark(SOURCE_WATERMARK, "1 millisecond"))
    kind = rows.schema[event_time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise OptionError(f"the event time {event_time!r} is {kind.simpleString()}, but it must be a timestamp")
    _check_delay(rows, delay)
    at_least = later(f.col(SOURCE_WATERMARK), _milliseconds(delay))
    timed = rows.withColumn(event_time, f.when(_is_data(), f.col(f"`{event_time}`")).otherwise(at_least))
    return _without_watermark_rows(timed.withWatermark(event_time, delay))


def check_is_frame(call: str, rows: object) -> None:
    """Raise OptionError unless something is a DataFrame, classic or of Spark Connect."""
    if not isinstance(rows, DataFrame):
        raise OptionError(f"{call}() takes a DataFrame, and not a {type(rows).__name__}")


def _check_delay(rows: DataFrame, delay: object) -> None:
    why = ""
    if isinstance(delay, str) and delay:  # Spark says of an empty one that it should be a text
        try:
            _ = rows.withWatermark(SOURCE_WATERMARK, delay).schema  # without it, Spark Connect does not look
        except PySparkException as error:
            why = f": {sentence_of(error)}"
        else:
            return
    raise OptionError(f"delay is {delay!r}, but it must be an interval for withWatermark, such as '10 minutes'{why}")


def follow_add_on_watermark(rows: DataFrame) -> DataFrame:
    """Let Spark's watermark follow the column ``tasks.ADD_ON_WATERMARK``, and drop the rows with only that column."""
    return _without_watermark_rows(rows.withWatermark(ADD_ON_WATERMARK, "0 seconds"), ADD_ON_WATERMARK)


def later(time: Column, by_ms: int | Column) -> Column:
    """Return timestamps that are later by ``by_ms``, in a way that is fast for each row of a stream.

    Spark adds an interval by the calendar of the session's time zone, in which a day may have 23 or 25 hours.  It also
    creates objects for each row.  This is one addition.
    """
    return f.timestamp_micros(f.unix_micros(time) + f.lit(by_ms * 1000))


def _milliseconds(interval: str) -> Column:
    """Return the whole milliseconds of an interval, as ``withWatermark`` takes it.

    A day has 24 hours, a month 31 days, and a year 12 such months (Spark: IntervalUtils.getDuration).
    """
    in_days = _MONTHS.sub(
        lambda part: f"{int(part[1]) * _DAYS[part[2].lower()]} days", _INTERVAL_KEYWORD.sub("", interval)
    )
    return f.expr(f"timestampdiff(MILLISECOND, {_EPOCH}, {_EPOCH} + interval {in_days})")


def _is_data(watermark: str = SOURCE_WATERMARK) -> Column:
    # Without a watermark, no row can hold only the watermark.
    since_ms = f.coalesce(f.pmod(f.unix_micros(f.col(watermark)), f.lit(1000)), f.lit(0))
    return since_ms != f.lit(WATERMARK_ROW_US)


def _without_watermark_rows(marked: DataFrame, watermark: str = SOURCE_WATERMARK) -> DataFrame:
    # Spark would push this filter below the watermark's node, which would then never see the rows with the watermark.
    # Spark would also push later filters, and filters that an inner join infers (its keys are not null).  Spark does
    # not move a filter that is not deterministic, and moves no other filter through it.
    return marked.where(f.when(f.spark_partition_id() >= 0, _is_data(watermark)))
