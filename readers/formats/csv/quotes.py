r"""Tells records that Spark and pyarrow.csv read alike from those with quotes of another dialect.

Quotes enclose whole values, and within them each quote is escaped.  A quote in the middle of a value without quotes is
a character like any other.  Other records are refused: each parser reads something else from them.

Texts are bytes with line ends ``\n``.
"""

from __future__ import annotations

import functools
from array import array

import numpy as np
import numpy.typing as npt

from tidegate.readers.formats.csv.options import CsvDialect

Positions = npt.NDArray[np.int64]

ODD_QUOTES = "has quotes that are not of this dialect (quote and escape); format text and Spark's from_csv may read it"
"""What is wrong with a record that pyarrow.csv might read in another way than Spark, as a clause after "the line"."""

_PIECE_BYTES = 1 << 20  # all offsets of frequent bytes would take much memory
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

    def doubled(self, text: bytes) -> bytes:
        """Return whole records, whose quotes are of this dialect, with a doubled quote for each escaped one."""
        if not self._quote or self._is_doubled or self._escape not in text:
            return text
        bounds, doubled, end = self._bounds(text), bytearray(), 0
        for opening, closing in zip(bounds[0::2], bounds[1::2], strict=True):  # a list would take much memory
            within = text[opening + 1 : closing]
            if self._escape in within:
                within = within.replace(self._escape * 2, _NO_CHARACTER)
                within = within.replace(self._escape + self._quote, self._quote * 2)
                doubled += text[end : opening + 1] + within.replace(_NO_CHARACTER, self._escape)
                end = closing
        return bytes(doubled + text[end:])

    def has_carriage_return(self, record: bytes) -> bool:
        """Return whether there is a carriage return that is not within quotes."""
        return len(_outside(_RETURN, record, self._bounds(record))) > 0

    def are_closed(self, text: bytes) -> bool:
        """Return whether whole records have quotes of this dialect, and no carriage return is outside them.

        text: the records, each ended by a line feed.
        """
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


@functools.lru_cache(maxsize=8)
def quotes_of(dialect: CsvDialect) -> CsvQuotes:
    """Return the rules of a dialect; new ones take longer to make than a small object to read."""
    return CsvQuotes(dialect)


def _outside(byte: int, text: bytes, bounds: Positions) -> Positions:
    """Return the offsets of a byte that are not within the quotes that open and close."""
    data = np.frombuffer(text, np.uint8)
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(data), _PIECE_BYTES):
        places = np.flatnonzero(data[start : start + _PIECE_BYTES] == byte) + start
        found.append(places[np.searchsorted(bounds, places) % 2 == 0] if len(bounds) else places)
    return np.concatenate(found)
