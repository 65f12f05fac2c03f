r"""Tells records that Spark and pyarrow.csv read alike from those with quotes of another dialect.

Quotes enclose whole values, and within them each quote is escaped.  A quote in the middle of a value without quotes is
a character like any other.  Other records are refused: each parser reads something else from them.

Texts are bytes with line ends ``\n``.
"""

from __future__ import annotations

import functools
import re
from array import array

import numpy as np
import numpy.typing as npt

from tidegate.readers.formats.csv.options import CsvDialect

Positions = npt.NDArray[np.int64]

ODD_QUOTES = "has quotes that are not of this dialect (quote and escape); format text and Spark's from_csv may read it"
"""What is wrong with a record that pyarrow.csv might read in another way than Spark, as a clause after "the line"."""

LONG_RECORD = 1 << 20
"""From how many bytes on a record is searched without a regular expression, which takes memory for each escape."""

_NEWLINE, _RETURN = b"\n\r"
_NO_CHARACTER = b"\xff"  # is in no text in UTF-8


class CsvQuotes:
    """The rules of quotes and escapes of a dialect."""

    def __init__(self, dialect: CsvDialect) -> None:
        self._quote, self._escape, self._sep = (text.encode() for text in (dialect.quote, dialect.escape, dialect.sep))
        self._holds_lines = dialect.multi_line
        self._is_doubled = dialect.escape == dialect.quote
        self._beside = np.zeros(256, bool)
        self._beside[[_NEWLINE, ord(self._sep), *self._quote * self._is_doubled]] = True
        sep, quote, escape = map(re.escape, (self._sep, self._quote, self._escape))
        quoted = b"%b[^%b%b]*(?:%b[\\s\\S][^%b%b]*)*%b" % (quote, quote, escape, escape, quote, escape, quote)
        if self._is_doubled:
            quoted = b"%b[^%b]*(?:%b%b[^%b]*)*%b" % (quote, quote, quote, quote, quote, quote)
        bare = b"[^%b%b\r\n][^%b\r\n]*" % (quote, sep, sep)
        value = b"(?:%b|%b)?" % (quoted, bare) if quote else b"(?:%b)?" % bare
        self._record = re.compile(b"%b(?:%b%b)*" % (value, sep, value))
        self._quoted_values = re.compile(b"(?:\\A|(?<=%b))%b(?=%b|\\Z)" % (sep, quoted, sep))

    def record_ends(self, text: bytes) -> Positions:
        """Return the offsets of the line feeds that are not within quotes."""
        return _outside(_NEWLINE, text, self._bounds(text))

    def width(self, record: bytes) -> int:
        """Return the number of values of a record that has no quotes of another dialect."""
        return len(_outside(ord(self._sep), record, self._bounds(record))) + 1

    def evened(self, text: bytes, least: int) -> tuple[bytes, Positions]:
        """Return whole records with as many values as most of them have, and how many each had.

        least: the minimum number of values.

        Missing values are empty, and surplus ones are left out.
        """
        bounds = self._bounds(text)
        ends, seps = _outside(_NEWLINE, text, bounds), _outside(ord(self._sep), text, bounds)
        before = np.searchsorted(seps, ends)
        widths = np.diff(before, prepend=0) + 1
        wanted = max(least, 2, int(np.bincount(widths).argmax()))  # a line without a separator might be empty
        pieces, done = [], 0
        for row in np.flatnonzero(widths != wanted).tolist():
            surplus = int(widths[row]) - wanted
            stop = ends[row] if surplus < 0 else seps[before[row] - surplus]
            pieces += [text[done:stop], self._sep * -surplus]
            done = ends[row]
        return b"".join([*pieces, text[done:]]), widths

    def are_plain(self, text: bytes) -> bool:
        """Return whether pyarrow.csv may read whole records as they are, each ended by a line feed."""
        if not self._is_doubled and self._quote and (self._escape + self._quote in text or self._escape * 2 in text):
            return False
        return self._are_closed(text)

    def for_arrow(self, record: bytes) -> bytes | None:
        """Return a record with a doubled quote for each escaped one; None: its quotes are not of this dialect."""
        is_long = len(record) >= LONG_RECORD
        if not (self._are_closed(record + b"\n") if is_long else self._record.fullmatch(record)):
            return None
        if not self._quote or self._is_doubled or self._escape not in record:
            return record
        if not is_long:
            return self._quoted_values.sub(lambda value: self._with_doubled_quotes(value[0]), record)
        pieces, end = [], 0
        for opening, closing in self._bounds(record).reshape(-1, 2).tolist():
            pieces += [record[end:opening], self._with_doubled_quotes(record[opening : closing + 1])]
            end = closing + 1
        return b"".join([*pieces, record[end:]])

    def has_carriage_return(self, record: bytes) -> bool:
        """Return whether there is a carriage return that is not within quotes."""
        return len(_outside(_RETURN, record, self._bounds(record))) > 0

    def _are_closed(self, text: bytes) -> bool:
        """Return whether whole records have quotes of this dialect, and no carriage return is outside them."""
        bounds = self._bounds(text)
        if len(bounds) % 2 or (b"\r" in text and len(_outside(_RETURN, text, bounds))):
            return False
        if not self._holds_lines and len(bounds) and len(_outside(_NEWLINE, text, bounds)) < text.count(b"\n"):
            return False
        return bool(self._beside[np.frombuffer(text, np.uint8)[1:][bounds[1::2]]].all())

    def _bounds(self, text: bytes) -> Positions:
        """Return the offsets of the quotes that open and close, in turn; a doubled quote closes and opens again.

        A quote opens only where a value begins (uniVocity: CsvParser).
        """
        if not self._quote or self._quote not in text:
            return np.zeros(0, np.int64)
        if not self._is_doubled:  # what is escaped neither opens nor closes
            text = text.replace(self._escape * 2, _NO_CHARACTER * 2).replace(
                self._escape + self._quote, _NO_CHARACTER * 2
            )
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(self._quote))
        before = np.frombuffer(b"\n" + text, np.uint8)[quotes]
        if self._beside[before[0::2]].all():
            return quotes
        return self._bounds_among(quotes, (before == ord(self._sep)) | (before == _NEWLINE))

    def _bounds_among(self, quotes: Positions, begins: npt.NDArray[np.bool_]) -> Positions:
        """Return the quotes that open and close, if some are characters of values without quotes."""
        bounds = array("q")
        for quote, begins_value in zip(quotes, begins, strict=True):
            if len(bounds) % 2 or begins_value or (self._is_doubled and bounds and bounds[-1] == quote - 1):
                bounds.append(quote)
        return np.frombuffer(bounds, np.int64)

    def _with_doubled_quotes(self, value: bytes) -> bytes:
        within = value[1:-1].replace(self._escape * 2, _NO_CHARACTER)
        within = within.replace(self._escape + self._quote, self._quote * 2).replace(_NO_CHARACTER, self._escape)
        return self._quote + within + self._quote


@functools.lru_cache(maxsize=8)
def quotes_of(dialect: CsvDialect) -> CsvQuotes:
    """Return the rules of a dialect; new ones take longer to make than a small object to read."""
    return CsvQuotes(dialect)


def _outside(byte: int, text: bytes, bounds: Positions) -> Positions:
    """Return the offsets of a byte that are not within the quotes that open and close."""
    data = np.frombuffer(text, np.uint8)
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(data), LONG_RECORD):  # all offsets of frequent bytes would take much memory
        places = np.flatnonzero(data[start : start + LONG_RECORD] == byte) + start
        found.append(places[np.searchsorted(bounds, places) % 2 == 0] if len(bounds) else places)
    return np.concatenate(found)
