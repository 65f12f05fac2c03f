"""The options of CSV, under the names of Spark's reader, and its dialect."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, model_validator
from typing_extensions import Self

from tidegate.readers.formats.options import RecordOptions

_TAB = "\\t"  # as it is written in Spark's options


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The dialect of CSV objects; names and defaults are those of Spark's reader.  CsvOptions describes them.

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
    raise ValueError("expected one ASCII character, which is no line end")


Character: TypeAlias = Annotated[str, BeforeValidator(_character)]
NoneOrCharacter: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value == "" else _character(value))]


class CsvOptions(RecordOptions):
    r"""The options of CSV.

    sep: the separator between two values; Spark also calls it ``delimiter``.  A tab may be written as ``\t``.
    quote: the quote around values that hold separators; empty: there are no quotes.
    escape: the character that makes a quote a part of a quoted value; the quote itself: quotes are doubled.
    header: the first line of each object names its columns.
    enforce_schema: columns match by position, whatever a header says.
    infer_schema: infer types, too; otherwise all inferred columns are strings.
    multi_line: quoted values may hold line ends.
    null_value: a text that means null, besides an empty value.
    """

    sep: Character = ","
    quote: NoneOrCharacter = '"'
    escape: Character = "\\"
    header: bool = False
    enforce_schema: bool = False
    infer_schema: bool = False
    multi_line: bool = False
    null_value: str = ""

    @model_validator(mode="after")
    def _consistent_csv(self) -> Self:
        if self.sep in {self.quote, self.escape}:
            raise ValueError("sep must differ from quote and escape")
        return self

    @property
    def csv_dialect(self) -> CsvDialect:
        """The options as the format takes them."""
        return CsvDialect(**{field.name: getattr(self, field.name) for field in fields(CsvDialect)})
