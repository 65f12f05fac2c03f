"""The dialect of CSV."""

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
    escape: makes a quote within quotes a part of the value.  A doubled quote counts as one only if this is the quote,
        as in RFC 4180; Spark's default is the backslash.
    comment: begins lines that are left out; empty: none are.
    header: the first line of each object holds the names of its columns.
    multi_line: quoted values may hold line ends; then an object is one chunk.
    null_value: the text that stands for null, besides an empty value.
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
"""Spark's default dialect."""
