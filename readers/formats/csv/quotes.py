r"""Tells records that Spark and pyarrow.csv read alike from those with quotes of another dialect.

Quotes enclose whole values, and within them each quote is escaped.  A quote in the middle of a value without quotes is
a character like any other.  Other records are refused: each parser reads something else from them.

Texts are bytes with line ends ``\n``.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import numpy.typing as npt

from tidegate.readers.formats.csv.dialect import CsvDialect

__all__ = ["ODD_QUOTES", "CsvQuotes", "Positions", "quotes_of"]

Positions = npt.NDArray[np.int64]

ODD_QUOTES = "has quotes that are not of this dialect (quote and escape); format text and Spark's from_csv may read it"
"""What is wrong with a record that pyarrow.csv might read in another way than Spark, as a clause after "the line"."""

_NEWLINE = 10


class CsvQuotes:
    """The rules of quotes and escapes of a dialect."""

    def __init__(self, dialect: CsvDialect) -> None:
        self._quote, self._escape, self._sep = (text.encode() for text in (dialect.quote, dialect.escape, dialect.sep))
        self._holds_lines = dialect.multi_line
        self._is_doubled = dialect.escape == dialect.quote
        sep, quote, escape = map(re.escape, (self._sep, self._quote, self._escape))
        quoted = b"%b(?:[^%b%b]|%b[\\s\\S])*%b" % (quote, quote, escape, escape, quote)
        if self._is_doubled:
            quoted = b"%b(?:[^%b]|%b%b)*%b" % (quote, quote, quote, quote, quote)
        bare = b"[^%b%b\r\n][^%b\r\n]*" % (quote, sep, sep)
        value = b"(?:%b|%b)?" % (quoted, bare) if quote else b"(?:%b)?" % bare
        self._record = re.compile(b"%b(?:%b%b)*" % (value, sep, value))
        self._quoted_values = re.compile(b"(?:\\A|(?<=%b))%b(?=%b|\\Z)" % (sep, quoted, sep))
        self._escaped = re.compile(b"%b([%b%b])" % (escape, quote, escape))

    def record_ends(self, text: bytes) -> Positions:
        """Return the offsets of the line feeds that are not within quotes."""
        feeds = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
        if not self._quote or self._quote not in text:
            return feeds
        if not self._is_doubled:  # what is escaped neither opens nor closes
            text = text.replace(self._escape * 2, b"  ").replace(self._escape + self._quote, b"  ")
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(self._quote))
        outside: Positions = feeds[np.searchsorted(quotes, feeds) % 2 == 0]
        return outside

    def are_plain(self, text: bytes) -> bool:
        """Return whether pyarrow.csv may read whole records as they are, each ended by a line feed.

        Then each quote opens or closes a value, or is one of two quotes that stand for one.
        """
        if b"\r" in text:
            return False
        if not self._quote or self._quote not in text:
            return True
        if not self._is_doubled and (self._escape + self._quote in text or self._escape * 2 in text):
            return False
        data = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(data == ord(self._quote))
        if len(quotes) % 2:
            return False
        beside = np.zeros(256, bool)
        beside[[_NEWLINE, ord(self._sep)] + [ord(self._quote)] * self._is_doubled] = True
        opening, closing = quotes[0::2], quotes[1::2]
        if not self._holds_lines:
            feeds = np.flatnonzero(data == _NEWLINE)
            if (np.searchsorted(quotes, feeds) % 2).any():
                return False
        return bool(beside[data[opening[opening > 0] - 1]].all() and beside[data[closing + 1]].all())

    def for_arrow(self, record: bytes) -> bytes | None:
        """Return a record with a doubled quote for each escaped one; None: its quotes are not of this dialect."""
        if self._record.fullmatch(record) is None:
            return None
        if not self._quote or self._is_doubled or self._escape not in record:
            return record
        return self._quoted_values.sub(self._with_doubled_quotes, record)

    def _with_doubled_quotes(self, value: re.Match[bytes]) -> bytes:
        within = self._escaped.sub(
            lambda escaped: self._quote * 2 if escaped[1] == self._quote else self._escape, value[0][1:-1]
        )
        return self._quote + within + self._quote


@functools.lru_cache(maxsize=8)
def quotes_of(dialect: CsvDialect) -> CsvQuotes:
    """Return the rules of a dialect; new ones take longer to make than a small object to read."""
    return CsvQuotes(dialect)
