"""The dialect of CSV."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.readers.plain_text import UTF_8

__all__ = ["COMMAS", "CsvDialect"]


@dataclass(frozen=True, slots=True)
class CsvDialect:
    r"""The dialect of CSV objects; names and defaults are those of Spark's reader.

    Characters are ASCII, but not line ends.  All characters differ; only quote and escape may be the same.

    sep: the separator between two values.
    quote: the quote around a value that holds a separator or a quote; empty: there are no quotes.
    escape: the character that makes a quote within quotes a part of the value; Spark's default is the backslash.  A
        doubled quote stands for one quote only if ``escape`` is the quote itself, as in RFC 4180.
    comment: the character that begins comments, which are left out; empty: there are none.
    header: the first line of each object holds the names of its columns.
    multi_line: quoted values may hold line ends; then an object is one chunk.
    null_value: the text that stands for null, besides an empty value.
    encoding: the encoding of the text, by check_encoding.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    comment: str = ""
    header: bool = False
    multi_line: bool = False
    null_value: str = ""
    encoding: str = UTF_8


COMMAS = CsvDialect()
"""Spark's default dialect."""
