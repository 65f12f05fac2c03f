"""The options that say what the bytes of an object mean, and what becomes of those that mean nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import Self

from tidegate.enumerators.s3.times.origin import ColumnTimes, Origin, parse_origin
from tidegate.readers.decompression import DEFAULT_MOST_BYTES
from tidegate.readers.event_time.range import TimeColumn
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.formats.binary import MODIFICATION_TIME, BinaryFileFormat
from tidegate.readers.formats.csv.columns import GivenColumns
from tidegate.readers.formats.guarded.format import GuardedFormat
from tidegate.readers.formats.typed_format import TypedFormat
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore
from tidegate.sources.options import MostBytes
from tidegate.sources.s3.text import TEXT_OPTIONS, S3TextOptions

__all__ = ["S3FormatOptions"]

_OF_RECORDS = ("parquet", "json", "avro", "orc", "csv")
_OF_FORMATS = {
    **TEXT_OPTIONS,
    "event_time_unit": _OF_RECORDS,
    "mode": _OF_RECORDS,
    "column_name_of_corrupt_record": _OF_RECORDS,
    "rescued_data_column": _OF_RECORDS,
    "bad_records_path": _OF_RECORDS,
    "max_decompressed_bytes": ("avro", "text", "parquet", "orc"),
}
"""The formats that an option belongs to, where these are not all."""


def _event_time(value: Any) -> Any:
    parse_origin(str(value))
    return value


class S3FormatOptions(S3TextOptions):
    """How objects are read.

    file_format: ``parquet``, ``orc``, ``avro``, ``json`` (a JSON value per line), ``csv``, ``text``, or
        ``binaryFile``, of which each object is a row.
    event_time: where event times come from: ``column:NAME``, which may be ``outer.inner``;
        ``path:TEMPLATE`` such as ``path:dt={yyyy-MM-dd}/hour={HH}``; or ``lastModified``.
    event_time_unit: of a column of numbers or text: ``s``, ``ms``, ``us`` or ``iso8601``.
    ignore_missing_files: skip objects that are gone when they are to be read.
    ignore_corrupt_files: skip objects, or the rest of them, that cannot be decoded.
    max_decompressed_bytes: the most that a block of avro, or an object that is one row of text, takes decompressed.
        Also the most that a row of avro takes as objects.  Decoding an object of parquet or orc takes at most so
        much memory beyond 768 MiB.
    """

    file_format: Literal["parquet", "json", "avro", "orc", "csv", "text", "binaryFile"] = "parquet"
    event_time: Annotated[str, BeforeValidator(_event_time)] = "lastModified"
    event_time_unit: TimeUnit | None = None
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False
    max_decompressed_bytes: MostBytes = DEFAULT_MOST_BYTES

    @model_validator(mode="after")
    def _consistent_format(self) -> Self:
        if self.event_time_unit is not None and not isinstance(self.event_time_origin, ColumnTimes):
            raise ValueError(f"eventTimeUnit is {self.event_time_unit!r}, but only a column has a unit of its own")
        for field in sorted(self.model_fields_set):
            formats = _OF_FORMATS.get(field, (self.file_format,))
            if self.file_format not in formats:
                raise ValueError(
                    f"{to_camel(field)} is an option of {' and '.join(formats)}, but fileFormat is {self.file_format!r}"
                )
        return self

    @model_validator(mode="after")
    def _consistent_times_of_format(self) -> Self:
        origin = self.event_time_origin
        if not isinstance(origin, ColumnTimes):
            return self
        if self.file_format == "text":
            raise ValueError(
                f"eventTime is {self.event_time!r}, but text has no column of times: use path or lastModified"
            )
        if self.file_format == "binaryFile" and origin.name.lower() != MODIFICATION_TIME.lower():
            raise ValueError(f"eventTime is {self.event_time!r}, but of binaryFile only {MODIFICATION_TIME} is a time")
        return self

    @property
    def event_time_origin(self) -> Origin:
        """Where event times come from."""
        return parse_origin(self.event_time)

    def object_format(  # noqa: PLR0911 - one for each format
        self,
        store: ObjectStore,
        bad_records: BadRecordPolicy = FAIL,
        columns: GivenColumns | None = None,
        read_times: TimeColumn | None = None,
    ) -> ObjectFormat:
        """Return what cuts and reads the objects of a bucket.

        columns: that were given, for a format whose objects do not name them.
        read_times: how the event-time column is read, if rows are told apart by it.
        """
        # Each brings libraries of its own, which take their time to import.
        match self.file_format:
            case "parquet":
                from tidegate.readers.formats.parquet.format import ParquetFormat

                return self._guarded(
                    ParquetFormat(store, self.event_time_unit, bad_records=bad_records, read_times=read_times)
                )
            case "json":
                from tidegate.readers.formats.json.format import JsonFormat

                return JsonFormat(store, self.event_time_unit, bad_records=bad_records, read_times=read_times)
            case "avro":
                from tidegate.readers.formats.avro.format import AvroFormat

                return AvroFormat(
                    store,
                    self.event_time_unit,
                    bad_records=bad_records,
                    read_times=read_times,
                    most_bytes=self.max_decompressed_bytes,
                )
            case "orc":
                from tidegate.readers.formats.orc.format import OrcFormat

                return self._guarded(
                    OrcFormat(store, self.event_time_unit, bad_records=bad_records, read_times=read_times)
                )
            case "csv":
                from tidegate.readers.formats.csv.format import CsvFormat

                return CsvFormat(
                    store,
                    self.event_time_unit,
                    self.csv_dialect,
                    columns,
                    enforce_schema=self.enforce_schema,
                    infer_schema=self.infer_schema,
                    bad_records=bad_records,
                    read_times=read_times,
                )
            case "text":
                from tidegate.readers.formats.text import TextFormat

                return TextFormat(
                    store, self.wholetext, self.line_sep, self.encoding, most_bytes=self.max_decompressed_bytes
                )
            case "binaryFile":
                return BinaryFileFormat(store)

    def _guarded(self, inner: TypedFormat) -> ObjectFormat:
        return GuardedFormat(inner, self.max_decompressed_bytes)
