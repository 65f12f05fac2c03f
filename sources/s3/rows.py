"""The options for the rows and columns that are read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
from pydantic import BeforeValidator, ConfigDict, model_validator
from pyspark.sql.types import StructType
from typing_extensions import Self

from tidegate.alignment.durations import epoch_ms
from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.arrow.conform import position_of
from tidegate.readers.event_time.columns import EventTimeRange
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.objects.metadata import METADATA
from tidegate.sources.s3.discovery import parse_time
from tidegate.spark_private import to_arrow_schema


def _columns(value: Any) -> Any:
    if isinstance(value, StructType):
        return to_arrow_schema(value, timezone="UTC")
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list | tuple) and all(isinstance(name, str) and name.strip() for name in value) and value:
        return tuple(name.strip() for name in value)
    if not isinstance(value, pa.Schema):
        raise ValueError("expected names of columns, in Python also a StructType or a pyarrow.Schema")  # noqa: TRY004
    return value


def _moment(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = parse_time(value)
    return epoch_ms(value) if isinstance(value, datetime) else value


Columns: TypeAlias = Annotated[pa.Schema | tuple[str, ...], BeforeValidator(_columns)]
Moment: TypeAlias = Annotated[int, BeforeValidator(_moment)]


class S3RowOptions(FormatOptions):
    """The rows and columns to read.

    columns: the names of inferred columns to read, or a schema.  Default: all columns of the first objects, fixed in
        the state location.  A column that an object lacks is null; a column that is not named is left out.
    starting_timestamp, ending_timestamp: read only rows with event times from ``starting_timestamp`` (inclusive) to
        ``ending_timestamp`` (exclusive); each in ms or as a datetime.
    include_metadata: add the column ``_metadata``: the object and the chunk that a row comes from.
    partition_column_type_inference: infer types for columns in folders ``column=value``; otherwise they are strings.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)  # for pyarrow's schema

    columns: Columns | None = None
    starting_timestamp: Moment | None = None
    ending_timestamp: Moment | None = None
    include_metadata: bool = False
    partition_column_type_inference: bool = True

    @model_validator(mode="after")
    def _consistent_rows(self) -> Self:
        start, end = self.starting_timestamp, self.ending_timestamp
        if start is not None and end is not None and start >= end:
            raise ValueError("startingTimestamp is not before endingTimestamp, so there is nothing to read")
        return self

    @property
    def event_time_range(self) -> EventTimeRange:
        """The event times that are read."""
        return EventTimeRange(self.starting_timestamp, self.ending_timestamp)

    def own_columns(self) -> list[pa.Field]:
        """Return the columns that options add."""
        rescued = [] if self.rescued_data_column is None else [pa.field(self.rescued_data_column, pa.string())]
        return [*rescued, *([METADATA] if self.include_metadata else [])]

    def with_own_columns(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a schema, with those that options add if it lacks them."""
        return pa.schema([*schema, *(field for field in self.own_columns() if field.name not in schema.names)])

    def selected(self, inferred: pa.Schema) -> pa.Schema:
        """Return the inferred columns that are read.

        Raises OptionError for a name that no inferred column has, and for an option that adds a column which the
        objects already have.
        """
        for field in self.own_columns():
            if position_of(field.name, inferred.names) is not None:
                raise OptionError(
                    f"the objects have a column {field.name!r} of their own, so no option can add it; "
                    "give a schema or leave out the option"
                )
        available = self.with_own_columns(inferred)
        if not isinstance(self.columns, tuple):
            return available
        fields = []
        for name in self.columns:
            index = position_of(name, available.names)
            if index is None:
                raise OptionError(f"there is no column {name!r} to read{did_you_mean(name, available.names)}")
            fields.append(available.field(index))
        return self.with_own_columns(pa.schema(fields))

    def check_given(self, schema: pa.Schema) -> None:
        """Raise OptionError for a given schema that contradicts these options."""
        for field in self.own_columns():
            index = schema.get_field_index(field.name)
            if index < 0 or schema.field(index).type != field.type:
                raise OptionError(
                    f"an option adds the column {field.name!r}, which the given schema lacks or has as another "
                    f"type than {field.type}: give it so, or leave out the option"
                )
        self.bad_record_policy.data_schema(schema)
