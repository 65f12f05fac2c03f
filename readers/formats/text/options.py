"""The options of text, under the names of Spark's reader."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, model_validator
from typing_extensions import Self

from tidegate.readers.formats.options import DecompressionOptions, EncodingOptions
from tidegate.readers.plain_text import UTF_8, is_single_byte

__all__ = ["TextOptions"]


def _line_end(value: Any) -> Any:
    if value is None or (isinstance(value, str) and len(value) == 1 and value.isascii()):
        return value
    raise ValueError("expected one ASCII character")


LineEnd: TypeAlias = Annotated[str | None, BeforeValidator(_line_end)]


class TextOptions(EncodingOptions, DecompressionOptions):
    """The options of text.

    wholetext: each object is one row.
    line_sep: the character that ends lines; default: any usual line end.
    """

    wholetext: bool = False
    line_sep: LineEnd = None

    @model_validator(mode="after")
    def _consistent_text(self) -> Self:
        if self.line_sep is not None and self.encoding != UTF_8 and not is_single_byte(self.encoding):
            # In other encodings, a character of several bytes may contain the byte of lineSep.
            raise ValueError(
                f"encoding is {self.encoding!r}, but lineSep takes UTF-8 and encodings of one byte a character"
            )
        if self.wholetext and self.line_sep is not None:
            raise ValueError(f"lineSep is {self.line_sep!r}, but wholetext takes objects as they are")
        return self
