"""The options of formats that are text, csv and text, under the names of Spark's readers."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, model_validator
from typing_extensions import Self

from tidegate.readers.formats.csv.dialect import CsvDialect
from tidegate.readers.plain_text import UTF_8, check_encoding, is_single_byte

__all__ = ["TEXT_OPTIONS", "S3TextOptions"]

_TAB = "\\t"  # how Spark lets one write it


def _character(value: Any) -> Any:
    value = "\t" if value == _TAB else value
    if isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n":
        return value
    raise ValueError("expected one ASCII character, which is no line end")


def _line_end(value: Any) -> Any:
    if value is None or (isinstance(value, str) and len(value) == 1 and value.isascii()):
        return value
    raise ValueError("expected one ASCII character")


Character: TypeAlias = Annotated[str, BeforeValidator(_character)]
NoneOrCharacter: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value == "" else _character(value))]
LineEnd: TypeAlias = Annotated[str | None, BeforeValidator(_line_end)]
Encoding: TypeAlias = Annotated[str, BeforeValidator(lambda value: check_encoding(str(value)))]


class S3TextOptions(BaseModel):
    r"""How text is written.

    Of csv:

    sep: between two values; also called ``delimiter``.  A tab may be written as ``\t``.
    quote: around values that hold separators; empty: there are no quotes.
    escape: makes a quote a part of a quoted value; the quote itself: quotes are doubled.
    comment: begins lines that are left out; empty: none are.
    header: the first line of each object names its columns.
    enforce_schema: columns go by position, whatever a header says.
    infer_schema: infer types, too; otherwise all columns that are inferred are strings.
    multi_line: quoted values may hold line ends.
    null_value: a text that means null, besides nothing.
    ignore_leading_white_space, ignore_trailing_white_space: around values that are not quoted.

    Of text:

    wholetext: each object is one row.
    line_sep: what ends lines; by default any usual line end.

    Of both:

    encoding: such as ``ISO-8859-1``; a line feed is one byte in it.
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
    ignore_leading_white_space: bool = False
    ignore_trailing_white_space: bool = False
    wholetext: bool = False
    line_sep: LineEnd = None
    encoding: Encoding = UTF_8

    @model_validator(mode="after")
    def _consistent_text(self) -> Self:
        characters = [self.sep, self.comment, *{self.quote, self.escape}]
        used = [character for character in characters if character]
        if len(set(used)) < len(used):
            raise ValueError("sep, quote, escape and comment must differ, but for quote and escape")
        if self.multi_line and self.encoding != UTF_8 and not is_single_byte(self.encoding):
            raise ValueError(
                f"encoding is {self.encoding!r}, but multiLine takes UTF-8 and encodings of one byte a character"
            )
        if self.line_sep is not None and self.encoding != UTF_8 and not is_single_byte(self.encoding):
            # A byte of a longer character may be the same.
            raise ValueError(
                f"encoding is {self.encoding!r}, but lineSep takes UTF-8 and encodings of one byte a character"
            )
        if self.wholetext and self.line_sep is not None:
            raise ValueError(f"lineSep is {self.line_sep!r}, but wholetext takes objects as they are")
        return self

    @property
    def csv_dialect(self) -> CsvDialect:
        """The options as the format takes them."""
        return CsvDialect(
            sep=self.sep,
            quote=self.quote,
            escape=self.escape,
            comment=self.comment,
            header=self.header,
            multi_line=self.multi_line,
            null_value=self.null_value,
            ignore_leading_white_space=self.ignore_leading_white_space,
            ignore_trailing_white_space=self.ignore_trailing_white_space,
            encoding=self.encoding,
        )


TEXT_OPTIONS = {
    **dict.fromkeys(S3TextOptions.model_fields, ("csv",)),
    "wholetext": ("text",),
    "line_sep": ("text",),
    "encoding": ("csv", "text"),
}
"""The formats that each option belongs to."""
