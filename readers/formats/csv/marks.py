r"""Finds the records of a text: where each begins and ends, and how many values it has.

pyarrow.csv reports neither, and errors and chunks need both.  It also reads a value such as ``"a"b`` otherwise than
Spark does.  So records are refused here in which quotes do not enclose whole values, or which need a backslash as an
escape: pyarrow.csv takes an escape for one outside of quotes, too.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.readers.formats.csv.options import BACKSLASH, CsvDialect

__all__ = ["ODD_QUOTES", "Marks", "Positions", "marks_of", "whole_records"]

Positions: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Text: TypeAlias = npt.NDArray[np.uint8]

ODD_QUOTES = (
    "has quotes or carriage returns that are not of this dialect (quote and escape); format text and Spark's from_csv "
    "may read it"
)
"""What is wrong with a record that pyarrow.csv might read in another way than Spark, as a clause after "the line"."""

_FEED, _RETURN = b"\n\r"
_LAST_BLANK = ord(" ")


class Marks(NamedTuple):
    """The records of a text.

    starts, ends: their offsets in bytes; ends exclusive, without the line end.
    widths: the number of values of each; 0: it has quotes of another dialect.
    """

    starts: Positions
    ends: Positions
    widths: Positions


def whole_records(data: bytes, dialect: CsvDialect) -> int:
    """Return how many bytes at the start of a text are whole records, if values may hold line ends."""
    text = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero((text == _FEED) & ~_within(_quotes(text, dialect)))
    return int(feeds[-1]) + 1 if len(feeds) else 0


def marks_of(data: bytes, dialect: CsvDialect) -> Marks:
    r"""Return the records of a text; empty ones, and lines of blanks, are none.

    Lines end with ``\n`` or ``\r\n``; without ``multi_line`` also with ``\r`` (Hadoop: LineReader).
    """
    text = np.frombuffer(data, np.uint8)
    quotes = _quotes(text, dialect)
    inside = _within(quotes)
    returns = text == _RETURN
    returns[:-1] &= text[1:] != _FEED
    line_ends = (text == _FEED) & ~inside if dialect.multi_line else (text == _FEED) | returns
    starts = np.append(0, np.flatnonzero(line_ends) + 1)
    starts = starts[starts < len(text)]
    stops = np.append(starts[1:], len(text))[: len(starts)]

    odd = np.bitwise_xor.reduceat(quotes.view(np.uint8), starts).view(bool)
    if odd.any():  # a quote that is not closed would seem to open those of the next record
        quotes &= ~np.repeat(odd, stops - starts)
        inside = _within(quotes)
    wrong = _odd_quotes(text, quotes, inside, dialect)
    if dialect.multi_line:
        wrong[:-1] |= (returns & ~inside)[:-1]
    if wrong.any():
        odd |= np.logical_or.reduceat(wrong, starts)

    separators = (text == ord(dialect.sep)) & ~inside
    widths = np.add.reduceat(separators.view(np.uint8), starts, dtype=np.uint32).astype(np.int64) + 1
    widths[odd] = 0
    ends = stops - line_ends[stops - 1]
    ends -= (ends > starts) & (text[ends - 1] == _RETURN)
    kept = starts < ends if dialect.multi_line else ~_are_blank(data, starts, ends)
    return Marks(starts[kept], ends[kept], widths[kept])


def _quotes(text: _Text, dialect: CsvDialect) -> _Mask:
    return text == ord(dialect.quote) if dialect.quote else np.zeros(len(text), bool)


def _within(quotes: _Mask) -> _Mask:
    """Return which bytes are within quotes; an opening quote is, a closing one is not."""
    inside: _Mask = np.bitwise_xor.accumulate(quotes.view(np.uint8)).view(bool) if quotes.any() else quotes
    return inside


def _odd_quotes(text: _Text, quotes: _Mask, inside: _Mask, dialect: CsvDialect) -> _Mask:
    """Return a mask of bytes that no value of this dialect has: it holds the place of each, or the one before it."""
    if not quotes.any():
        return np.zeros(len(text), bool)
    ends_value = (text == _FEED) | (text == _RETURN) | (text == ord(dialect.sep))
    beside = ends_value | quotes if dialect.escape == dialect.quote else ends_value
    wrong = quotes & ~inside
    wrong[:-1] &= ~beside[1:]  # a closing quote, unless a value ends there
    wrong[-1] = False
    wrong[:-1] |= ~beside[:-1] & (quotes & inside)[1:]  # an opening quote, unless a value begins there
    if dialect.escape == BACKSLASH:
        escapes = text == ord(BACKSLASH)
        wrong[:-1] |= (escapes & inside)[:-1] & (escapes | quotes)[1:]
    return wrong


def _are_blank(data: bytes, starts: Positions, ends: Positions) -> _Mask:
    """Return which lines hold only blanks (Spark: filterCommentAndEmpty; Java: String.trim)."""
    blank: _Mask = (np.frombuffer(data + b"\n", np.uint8)[starts] <= _LAST_BLANK) | (starts == ends)
    blanks = bytes(range(_LAST_BLANK + 1))
    for line in np.flatnonzero(blank):
        blank[line] = not data[starts[line] : ends[line]].strip(blanks)
    return blank
