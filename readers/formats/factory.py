"""The contract of a format's factory, which declares all that other modules need to know about the format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel

from tidegate.readers.event_time.range import TimeColumn
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore

__all__ = ["INFERRED", "ColumnsBy", "FormatFactory", "Reading"]

OptionsT = TypeVar("OptionsT", bound=BaseModel)

ColumnsBy: TypeAlias = Literal["name", "position", "format"]
"""How columns are found: by the names in an object, by the position of a value, or by the format, which fixes them."""


class Reading(NamedTuple):
    """The part of objects that a query reads.

    columns: the names of the data's columns in the user's schema, in its order; None: they are inferred.
    prefix: folders of a key below this prefix may name columns, which are not in the data.
    times: the event-time column as it is read, if rows are selected by it; None: all rows are read.
    """

    columns: tuple[str, ...] | None = None
    prefix: str = ""
    times: TimeColumn | None = None


INFERRED = Reading()
"""All rows, with the columns that objects have."""


class FormatFactory(ABC, Generic[OptionsT]):
    """Makes a format from its options (Flink: FormatFactory).

    The module of a factory imports the format only in ``create``, because the format's libraries are slow to import.
    """

    name: ClassVar[str]
    """The value of the option ``fileFormat``."""

    options: type[OptionsT]
    """The options of the format; formats that share an option inherit it from the same class."""

    split_options: ClassVar[Sequence[str]] = ()
    """The options that decide how objects are cut into records, so they may not change from run to run."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Spark's other names for options, in lower case, and the option of each name; if both are set, the option wins."""

    time_columns: ClassVar[Sequence[str] | None] = None
    """The only columns that may hold event times; None: any column may."""

    parsed_units: ClassVar[tuple[TimeUnit, ...]] = ("iso8601",)
    """The units of values that the format itself reads into a column of timestamps; see RowTimes."""

    @abstractmethod
    def create(self, options: OptionsT, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """Return the format that cuts and reads the objects of a bucket."""

    def check_selection(self, options: OptionsT) -> None:
        """Raise ValueError if these options do not allow selecting columns by name."""
        del options

    def columns_by(self, options: OptionsT) -> ColumnsBy:
        """Return how columns are found in an object."""
        del options
        return "name"
