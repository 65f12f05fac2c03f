"""How CSV is written."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.readers.plain_text import UTF_8

__all__ = ["COMMAS", "CsvDialect"]


@dataclass(frozen=True, slots=True)
class CsvDialect:
    r"""The dialect of CSV objects; names and defaults are those of Spark's reader.

    Characters are ASCII, no line ends, and differ but for quote and escape.

    sep: between two values.
    quote: around a value that holds a separator or a quote; empty: there are no quotes.
    escape: makes a quote within quotes a part of the value.  A quote that is doubled is one only if this is the
        quote, as RFC 4180 has it; Spark's default is the backslash.
    comment: at the beginning of a line that is to be left out; empty: none is.
    header: the first line of each object holds the names of its columns.
    multi_line: quoted values may hold line ends; then an object is one chunk.
    null_value: what stands for null, besides nothing at all.
    ignore_leading_white_space, ignore_trailing_white_space: around values that are not quoted.
    encoding: of the text, by check_encoding.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    comment: str = ""
    header: bool = False
    multi_line: bool = False
    null_value: str = ""
    ignore_leading_white_space: bool = False
    ignore_trailing_white_space: bool = False
    encoding: str = UTF_8


COMMAS = CsvDialect()
"""What Spark takes CSV for unless told otherwise."""
