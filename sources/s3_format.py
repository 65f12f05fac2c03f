"""The options that say what the bytes of an object mean, and what becomes of those that mean nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, model_validator
from typing_extensions import Self

from tidegate.errors import did_you_mean
from tidegate.readers.event_time_units import TimeUnit
from tidegate.readers.json_format import JsonFormat
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import ObjectFormat
from tidegate.readers.parquet_format import ParquetFormat
from tidegate.readers.path_times import PathTimes

__all__ = ["S3FormatOptions"]

_FORMATS = {"parquet": ParquetFormat, "json": JsonFormat}


def _event_time(value: Any) -> Any:
    kind, colon, rest = str(value).partition(":")
    if kind == "path" and colon:
        PathTimes(rest)
    elif not (value == "lastModified" or (kind == "column" and rest)):
        nearest = did_you_mean(kind, ["lastModified", "column:", "path:"])
        raise ValueError(f"expected lastModified, column:NAME or path:TEMPLATE{nearest}")
    return value


class S3FormatOptions(BaseModel):
    """How objects are read.

    file_format: ``parquet`` or ``json`` (a JSON value per line, also compressed).
    event_time: where event times come from: ``column:NAME``, which may be ``outer.inner``;
        ``path:TEMPLATE`` such as ``path:dt={yyyy-MM-dd}/hour={HH}``; or ``lastModified``.
    event_time_unit: of a column of numbers or text: ``s``, ``ms``, ``us`` or ``iso8601``.
    ignore_missing_files: skip objects that are gone when they are to be read.
    ignore_corrupt_files: skip objects, or the rest of them, that cannot be decoded.
    """

    file_format: Literal["parquet", "json"] = "parquet"
    event_time: Annotated[str, BeforeValidator(_event_time)] = "lastModified"
    event_time_unit: TimeUnit | None = None
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False

    @model_validator(mode="after")
    def _consistent_format(self) -> Self:
        if self.event_time_unit is not None and not self.event_time.startswith("column:"):
            raise ValueError(f"eventTimeUnit is {self.event_time_unit!r}, but only a column has a unit of its own")
        return self

    def object_format(self, store: ObjectStore) -> ObjectFormat:
        """Return what cuts and reads the objects of a bucket."""
        return _FORMATS[self.file_format](store, self.event_time_unit)
