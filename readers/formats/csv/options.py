"""The options of CSV, under the names of Spark's reader."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, model_validator
from typing_extensions import Self

from tidegate.readers.formats.csv.dialect import CsvDialect
from tidegate.readers.formats.options import EncodingOptions, RecordOptions
from tidegate.readers.plain_text import UTF_8, is_single_byte

__all__ = ["CsvOptions"]

_TAB = "\\t"  # as it is written in Spark's options


def _character(value: Any) -> Any:
    value = "\t" if value == _TAB else value
    if isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n":
        return value
    raise ValueError("expected one ASCII character, which is no line end")


Character: TypeAlias = Annotated[str, BeforeValidator(_character)]
NoneOrCharacter: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value == "" else _character(value))]


class CsvOptions(RecordOptions, EncodingOptions):
    r"""The options of CSV.

    sep: the separator between two values; Spark also calls it ``delimiter``.  A tab may be written as ``\t``.
    quote: the quote around values that hold separators; empty: there are no quotes.
    escape: the character that makes a quote a part of a quoted value; the quote itself: quotes are doubled.
    comment: the character that begins comments, which are left out; empty: there are none.
    header: the first line of each object names its columns.
    enforce_schema: columns match by position, whatever a header says.
    infer_schema: infer types, too; otherwise all inferred columns are strings.
    multi_line: quoted values may hold line ends.
    null_value: a text that means null, besides an empty value.
    """

    sep: Character = ","
    quote: NoneOrCharacter = '"'
    escape: Character = "\\"
    comment: NoneOrCharacter = ""
    header: bool = False
    enforce_schema: bool = False
    infer_schema: bool = False
    multi_line: bool = False
    null_value: str = ""

    @model_validator(mode="after")
    def _consistent_csv(self) -> Self:
        characters = [self.sep, self.comment, *{self.quote, self.escape}]
        used = [character for character in characters if character]
        if len(set(used)) < len(used):
            raise ValueError("sep, quote, escape and comment must differ, but for quote and escape")
        if self.multi_line and self.encoding != UTF_8 and not is_single_byte(self.encoding):
            raise ValueError(
                f"encoding is {self.encoding!r}, but multiLine takes UTF-8 and encodings of one byte a character"
            )
        if self.multi_line and self.comment:
            raise ValueError(f"comment is {self.comment!r}, but with multiLine no comments are left out")
        return self

    @property
    def csv_dialect(self) -> CsvDialect:
        """The options as the format takes them."""
        return CsvDialect(**{field.name: getattr(self, field.name) for field in fields(CsvDialect)})
