"""The options for the format of objects, and for the origin of their event times."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import Self

from tidegate.enumerators.s3.times.origin import ColumnTimes, Origin, parse_origin
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import (
    FORMATS,
    INFERRED,
    FormatFactory,
    FormatName,
    Reading,
    formats_with,
)
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore
from tidegate.sources.options import lower_case

KEPT_OPTIONS = (
    "file_format",
    "event_time",
    "event_time_unit",
    *(option for factory in FORMATS.values() for option in factory.split_options),
)
"""The options that decide how chunks are cut and planned; like the path, they stay from run to run."""


def _event_time(value: Any) -> Any:
    parse_origin(str(value))
    return value


def _file_format(value: Any) -> Any:
    """Return the name of a format as it is spelled here: Spark takes it in any case."""
    return next((name for name in FORMATS if name.lower() == lower_case(value)), value)


class S3FormatOptions(FormatOptions):
    """The format of objects.

    file_format: ``parquet``, ``orc``, ``avro``, ``json`` (a JSON value per line), ``csv``, ``text``, or ``binaryFile``
        (each object is a row).
    event_time: the origin of event times: ``column:NAME``, where NAME may be ``outer.inner``; ``path:TEMPLATE``, such
        as ``path:dt={yyyy-MM-dd}/hour={HH}``; or ``lastModified``.
    ignore_missing_files: skip objects that are gone before they are read.
    ignore_corrupt_files: skip objects, or the rest of them, that cannot be decoded.
    """

    file_format: Annotated[FormatName, BeforeValidator(_file_format)] = "parquet"
    event_time: Annotated[str, BeforeValidator(_event_time)] = "lastModified"
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False

    @model_validator(mode="after")
    def _consistent_format(self) -> Self:
        if self.event_time_unit is not None and not isinstance(self.event_time_origin, ColumnTimes):
            raise ValueError(f"eventTimeUnit is {self.event_time_unit!r}, but only a column has a unit of its own")
        for field in sorted(self.model_fields_set):
            formats = formats_with(field)
            if formats and self.file_format not in formats:
                raise ValueError(
                    f"{to_camel(field)} is an option of {' and '.join(formats)}, but fileFormat is {self.file_format!r}"
                )
        return self

    @model_validator(mode="after")
    def _consistent_times_of_format(self) -> Self:
        origin, columns = self.event_time_origin, self.format_factory.time_columns
        if not isinstance(origin, ColumnTimes) or columns is None:
            return self
        if not columns:
            raise ValueError(
                f"eventTime is {self.event_time!r}, but {self.file_format} has no column of times: use path or "
                "lastModified"
            )
        if origin.name.lower() not in map(str.lower, columns):
            raise ValueError(
                f"eventTime is {self.event_time!r}, but {self.file_format} has times only in {' and '.join(columns)}"
            )
        return self

    @property
    def event_time_origin(self) -> Origin:
        """The origin of event times: the option, parsed."""
        return parse_origin(self.event_time)

    @property
    def format_factory(self) -> FormatFactory:
        """The factory of the format."""
        return FORMATS[self.file_format]

    def object_format(self, store: ObjectStore, reading: Reading = INFERRED) -> ObjectFormat:
        """Return the format that cuts and reads the objects of a bucket."""
        return self.format_factory.create(self, store, reading)
