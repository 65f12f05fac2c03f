"""The registry of formats: what other modules need to know about each.

A format is imported only when it is made, because its libraries are slow to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from tidegate.errors import needing
from tidegate.readers.event_time.columns import TimeColumn
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.objects.partitions import GivenColumns
from tidegate.readers.objects.values import Bucket, ObjectFormat

FormatName: TypeAlias = Literal["parquet", "json", "avro", "orc", "csv", "text", "binaryFile"]


class Reading(NamedTuple):
    """The part of objects that a query reads.

    columns: the names of the data's columns in the user's schema, in its order; None: they are inferred.
    prefix: folders of a key below this prefix may name columns, which are not in the data.
    times: the event-time column as it is read, if rows are selected by it; None: all rows are read.
    """

    columns: tuple[str, ...] | None = None
    prefix: str | None = ""
    times: TimeColumn | None = None

    @property
    def given(self) -> GivenColumns | None:
        """The columns by which formats without names of their own match; None: they are inferred."""
        return None if self.columns is None else GivenColumns(self.columns, self.prefix)


INFERRED = Reading()
"""All rows, with the columns that objects have."""


@dataclass(frozen=True, slots=True)
class FormatFactory:
    """Makes a format from its options (Flink: FormatFactory).

    create: returns the format that cuts and reads the objects of a bucket.
    options: those of FormatOptions that the format has.
    split_options: the options that decide how objects are cut into records, so they may not change from run to run.
    aliases: Spark's other names for options, in lower case, and the option of each; if both are set, the option wins.
    time_columns: the only columns that may hold event times; None: any column may.
    parsed_units: the units of values that the format itself reads into a column of timestamps; see RowTimes.
    """

    create: Callable[[FormatOptions, Bucket, Reading], ObjectFormat]
    options: Sequence[str] = ()
    split_options: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    time_columns: Sequence[str] | None = None
    parsed_units: tuple[TimeUnit, ...] = ("iso8601",)


def _times(options: FormatOptions, reading: Reading) -> dict[str, Any]:
    return {"unit": options.event_time_unit, "read_times": reading.times}


def _parquet(options: FormatOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.parquet import opened_parquet
    from tidegate.readers.formats.typed import TypedFormat

    return TypedFormat(store, opened_parquet, "Parquet", **_times(options, reading))


def _orc(options: FormatOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.orc import opened_orc
    from tidegate.readers.formats.typed import TypedFormat

    return TypedFormat(store, partial(opened_orc, columns=reading.given), "ORC", **_times(options, reading))


def _avro(options: FormatOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    with needing("avro", "fileFormat = avro"):
        from tidegate.readers.formats.avro import opened_avro
    from tidegate.readers.formats.typed import TypedFormat

    opener = partial(opened_avro, most_bytes=options.max_decompressed_bytes)
    return TypedFormat(store, opener, "Avro", **_times(options, reading))


def _json(options: FormatOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.json import JsonFormat

    return JsonFormat(store, **_times(options, reading), bad_records=options.bad_record_policy)


def _csv(options: FormatOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.csv import CsvFormat

    return CsvFormat(
        store,
        **_times(options, reading),
        bad_records=options.bad_record_policy,
        dialect=options.csv_dialect,
        columns=reading.given,
        enforce_schema=options.enforce_schema,
        infer_schema=options.infer_schema,
    )


def _text(_: FormatOptions, store: Bucket, __: Reading) -> ObjectFormat:
    from tidegate.readers.formats.plain import TextFormat

    return TextFormat(store)


def _binary_file(_: FormatOptions, store: Bucket, __: Reading) -> ObjectFormat:
    from tidegate.readers.formats.plain import BinaryFileFormat

    return BinaryFileFormat(store)


_OF_COLUMNS = ("event_time_unit",)
_OF_RECORDS = (*_OF_COLUMNS, "mode", "rescued_data_column", "bad_records_path")
_OF_CSV = ("sep", "quote", "escape", "header", "enforce_schema", "infer_schema", "multi_line", "null_value")

FORMATS: Mapping[str, FormatFactory] = {
    "parquet": FormatFactory(_parquet, _OF_COLUMNS),
    # In a column of timestamps, a number of JSON counts seconds.
    "json": FormatFactory(_json, _OF_RECORDS, parsed_units=("iso8601", "s")),
    "avro": FormatFactory(_avro, (*_OF_COLUMNS, "max_decompressed_bytes")),
    "orc": FormatFactory(_orc, _OF_COLUMNS),
    "csv": FormatFactory(_csv, (*_OF_RECORDS, *_OF_CSV), split_options=("multi_line",), aliases={"delimiter": "sep"}),
    "text": FormatFactory(_text, time_columns=()),
    "binaryFile": FormatFactory(_binary_file, time_columns=("modificationTime",)),
}
"""The factory of each format, by its name: the value of the option ``fileFormat``."""


def formats_with(option: str) -> list[str]:
    """Return the names of the formats that have an option; empty: no format has it."""
    return [name for name, factory in FORMATS.items() if option in factory.options]
