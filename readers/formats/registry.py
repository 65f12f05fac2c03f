"""The registry of formats: what other modules need to know about each.  A new format is a folder, and an entry here.

A format is imported only when it is made, because its libraries are slow to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from tidegate.readers.event_time.range import TimeColumn
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.options import AvroOptions, ColumnOptions, CsvOptions, RecordOptions
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
    prefix: str = ""
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
    options: the options of the format; formats that share an option inherit it from the same class.
    split_options: the options that decide how objects are cut into records, so they may not change from run to run.
    aliases: Spark's other names for options, in lower case, and the option of each; if both are set, the option wins.
    time_columns: the only columns that may hold event times; None: any column may.
    parsed_units: the units of values that the format itself reads into a column of timestamps; see RowTimes.
    """

    create: Callable[[Any, Bucket, Reading], ObjectFormat]
    options: type[BaseModel]
    split_options: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    time_columns: Sequence[str] | None = None
    parsed_units: tuple[TimeUnit, ...] = ("iso8601",)


def _of_columns(options: ColumnOptions, reading: Reading) -> dict[str, Any]:
    return {"unit": options.event_time_unit, "read_times": reading.times}


def _of_records(options: RecordOptions, reading: Reading) -> dict[str, Any]:
    return {**_of_columns(options, reading), "bad_records": options.bad_record_policy}


def _parquet(options: ColumnOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.parquet.format import ParquetFormat

    return ParquetFormat(store, **_of_columns(options, reading))


def _orc(options: ColumnOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.orc import OrcFormat

    return OrcFormat(store, **_of_columns(options, reading), columns=reading.given)


def _avro(options: AvroOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.avro.format import AvroFormat

    return AvroFormat(store, **_of_columns(options, reading), most_bytes=options.max_decompressed_bytes)


def _json(options: RecordOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.json.format import JsonFormat

    return JsonFormat(store, **_of_records(options, reading))


def _csv(options: CsvOptions, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.csv import CsvFormat

    return CsvFormat(
        store,
        **_of_records(options, reading),
        dialect=options.csv_dialect,
        columns=reading.given,
        enforce_schema=options.enforce_schema,
        infer_schema=options.infer_schema,
    )


def _text(_: BaseModel, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.text.format import TextFormat

    del reading
    return TextFormat(store)


def _binary_file(_: BaseModel, store: Bucket, reading: Reading) -> ObjectFormat:
    from tidegate.readers.formats.binary.format import BinaryFileFormat

    del reading
    return BinaryFileFormat(store)


FORMATS: Mapping[str, FormatFactory] = {
    "parquet": FormatFactory(_parquet, ColumnOptions),
    # In a column of timestamps, a number of JSON counts seconds.
    "json": FormatFactory(_json, RecordOptions, parsed_units=("iso8601", "s")),
    "avro": FormatFactory(_avro, AvroOptions),
    "orc": FormatFactory(_orc, ColumnOptions),
    "csv": FormatFactory(
        _csv,
        CsvOptions,
        split_options=("multi_line",),
        aliases={"delimiter": "sep"},
    ),
    "text": FormatFactory(_text, BaseModel, time_columns=()),
    "binaryFile": FormatFactory(_binary_file, BaseModel, time_columns=("modificationTime",)),
}
"""The factory of each format, by its name: the value of the option ``fileFormat``."""


class FormatOptions(AvroOptions, CsvOptions):
    """The options of all formats; a query may set the options of its format."""


def formats_with(option: str) -> list[str]:
    """Return the names of the formats that have an option; empty: no format has it."""
    return [name for name, factory in FORMATS.items() if option in factory.options.model_fields]
