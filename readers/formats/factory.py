"""The contract of a format's factory: the declarations of a format, so that no other module need know it."""

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
"""Objects name their columns; or the position of a value tells its column; or all objects have the same ones."""


class Reading(NamedTuple):
    """The part of objects that a query reads.

    columns: the names of the data's columns in a schema that was given, in its order; None: they are inferred.
    prefix: below it, the folders of a key may name columns, which are not in the data.
    times: the event-time column as it is read, if rows are selected by it.
    """

    columns: tuple[str, ...] | None = None
    prefix: str = ""
    times: TimeColumn | None = None


INFERRED = Reading()
"""All rows, with the columns that objects have."""


class FormatFactory(ABC, Generic[OptionsT]):
    """Makes the format of a name (Flink: FormatFactory).

    The module of a factory imports the format only in ``create``, because the format's libraries are slow to import.
    """

    name: ClassVar[str]
    """The value of the option ``fileFormat``."""

    options: type[OptionsT]
    """The options of the format; formats that share one take it from the same class."""

    split_options: ClassVar[Sequence[str]] = ()
    """The options by which objects are cut into records, so that they stay from run to run."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Spark's other names of its options, in lower case, with the option of each; if both are set, the option wins."""

    time_columns: ClassVar[Sequence[str] | None] = None
    """The only columns that may hold event times; None: any may."""

    parsed_units: ClassVar[tuple[TimeUnit, ...]] = ("iso8601",)
    """The units of values that it reads into a column of timestamps itself; see RowTimes."""

    @abstractmethod
    def create(self, options: OptionsT, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """Return the format that cuts and reads the objects of a bucket."""

    def check_selection(self, options: OptionsT) -> None:
        """Raise ValueError for options by which columns cannot be selected by their names."""
        del options

    def columns_by(self, options: OptionsT) -> ColumnsBy:
        """Tell how columns are found in an object."""
        del options
        return "name"
