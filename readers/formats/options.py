"""The options of formats, under the names of Spark's and Databricks' readers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from tidegate.readers.decompression import DEFAULT_MOST_BYTES, parse_most_bytes
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import CORRUPT_COLUMN, BadRecordPolicy, Mode
from tidegate.readers.models import Model
from tidegate.readers.objects.partitions import METADATA
from tidegate.readers.places.place import check_location


def upper_case(value: Any) -> Any:
    """Return text in upper case, and anything else as it is."""
    return value.upper() if isinstance(value, str) else value


Location: TypeAlias = Annotated[str, BeforeValidator(lambda value: check_location(str(value)))]
MostBytes: TypeAlias = Annotated[int, BeforeValidator(parse_most_bytes)]


_TAB = "\\t"  # as it is written in Spark's options


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The dialect of CSV objects; names and defaults are those of Spark's reader.  FormatOptions describes them.

    Characters are ASCII, but not line ends.  All characters differ; only quote and escape may be the same.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    header: bool = False
    multi_line: bool = False
    null_value: str = ""


COMMAS = CsvDialect()
"""Spark's default dialect."""


def _character(value: Any) -> Any:
    value = "\t" if value == _TAB else value
    if isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n":
        return value
    raise ValueError("expected one ASCII character that does not end a line")


Character: TypeAlias = Annotated[str, BeforeValidator(_character)]
NoneOrCharacter: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value == "" else _character(value))]


class FormatOptions(Model):
    r"""The options of all formats; the registry says which format has which.

    event_time_unit: the unit of an event-time column of numbers or text: ``s``, ``ms``, ``us``, ``ns`` or ``iso8601``.
    mode: the policy for bad records, which cannot be read or do not fit: ``FAILFAST``, ``PERMISSIVE`` or
        ``DROPMALFORMED``.  With ``PERMISSIVE``, a column ``_corrupt_record`` of the schema has their texts.
    rescued_data_column: a column for values that the other columns lack or cannot hold, as JSON.
    bad_records_path: a folder, or ``s3://bucket/prefix``.  Bad records are written there instead of being read.
    max_decompressed_bytes: the maximum size of a decompressed block of avro.
    sep: the separator between two values; Spark also calls it ``delimiter``.  A tab may be written as ``\t``.
    quote: the quote around values that hold separators; empty: values have no quotes.
    escape: the character that makes a quote a part of a quoted value; the quote itself: quotes are doubled.
    header: the first line of each object names its columns.
    enforce_schema: columns match by position, whatever a header says.
    infer_schema: also infer types; otherwise all inferred columns are strings.
    multi_line: quoted values may hold line ends.
    null_value: a text that means null, besides an empty value.
    """

    event_time_unit: TimeUnit | None = None
    mode: Annotated[Mode, BeforeValidator(upper_case)] = "FAILFAST"
    rescued_data_column: Annotated[str | None, Field(min_length=1)] = None
    bad_records_path: Location | None = None
    max_decompressed_bytes: MostBytes = DEFAULT_MOST_BYTES
    sep: Character = ","
    quote: NoneOrCharacter = '"'
    escape: Character = "\\"
    header: bool = False
    enforce_schema: bool = False
    infer_schema: bool = False
    multi_line: bool = False
    null_value: str = ""

    @model_validator(mode="after")
    def _consistent_records(self) -> Self:
        if self.bad_records_path is not None and "mode" in self.model_fields_set and self.mode != "DROPMALFORMED":
            raise ValueError(f"badRecordsPath is set, which leaves bad records out, but mode is {self.mode!r}")
        if self.rescued_data_column in (CORRUPT_COLUMN, METADATA.name):
            raise ValueError(f"rescuedDataColumn is {self.rescued_data_column!r}, which is another column's name")
        return self

    @model_validator(mode="after")
    def _consistent_csv(self) -> Self:
        if self.sep in {self.quote, self.escape}:
            raise ValueError("sep must differ from quote and escape")
        return self

    @property
    def bad_record_policy(self) -> BadRecordPolicy:
        """The options for bad records as formats take them."""
        return BadRecordPolicy(self.mode, self.rescued_data_column, self.bad_records_path)

    @property
    def csv_dialect(self) -> CsvDialect:
        """The options of CSV's dialect as the format takes them."""
        return CsvDialect(**{field.name: getattr(self, field.name) for field in fields(CsvDialect)})
