"""The dialect of CSV."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMAS", "CsvDialect"]


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
