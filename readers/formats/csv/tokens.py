r"""Splits CSV records into values as Spark's parser does (uniVocity: CsvParser), and finds the records that need it.

Texts are bytes with line ends ``\n``.  Most texts are *plain*: quotes enclose whole values, and inside values there are
only doubled quotes.  All parsers read plain texts alike, so pyarrow.csv may read them.  If an escape follows a closing
quote, Spark loses a separator; here the escape is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.readers.formats.csv.dialect import CsvDialect

__all__ = ["CsvTokenizer", "Positions", "Tokens", "blank_lines"]

Positions: TypeAlias = npt.NDArray[np.int64]

Tokens: TypeAlias = list[str | None]
"""The values of a record, their bytes as Latin-1; None: there is no value, not even quotes."""

_NEWLINE = 10
_BLANK = " "  # and every character before it


class CsvTokenizer:
    """Splits records into values by the rules of a dialect."""

    def __init__(self, dialect: CsvDialect) -> None:
        self.dialect = dialect
        self._sep, self._quote, self._escape = dialect.sep, dialect.quote, dialect.escape
        self._value_end = re.compile(f"[{re.escape(dialect.sep)}\n]")
        self._quoted_stop = re.compile(f"[{re.escape(dialect.quote + dialect.escape)}]" if dialect.quote else "$")
        self._trims = dialect.ignore_leading_white_space or dialect.ignore_trailing_white_space

    def is_plain(self, data: bytes) -> bool:
        """Return whether whole records are plain.

        Parsers that read the same number of plain records also read the same values.
        """
        dialect = self.dialect
        quote, escape = dialect.quote.encode(), dialect.escape.encode()
        if dialect.multi_line and (b"\r" in data or self._may_have_comments(data)):
            return False
        if not quote or quote not in data:
            return True
        if self._trims or (escape != quote and (escape + quote in data or escape + escape in data)):
            return False
        return self._is_quoted_plainly(np.frombuffer(data, np.uint8))

    def _is_quoted_plainly(self, text: npt.NDArray[np.uint8]) -> bool:
        """Return whether each quote opens or closes a value, or is one of two quotes that stand for one."""
        dialect = self.dialect
        quote = ord(dialect.quote)
        quotes = np.flatnonzero(text == quote)
        if len(quotes) % 2:
            return False
        beside = np.zeros(256, bool)
        beside[[_NEWLINE, ord(dialect.sep)] + [quote] * (dialect.escape == dialect.quote)] = True
        opening, closing = quotes[0::2], quotes[1::2]
        before, after = opening[opening > 0] - 1, closing[closing < len(text) - 1] + 1
        return bool(beside[text[before]].all() and beside[text[after]].all())

    def plain_records(self, data: bytes) -> tuple[Positions, Positions] | None:
        """Return the starts and the ends of plain records, without empty ones; None: the records are not plain."""
        if not self.is_plain(data):
            return None
        feeds = self._ends(data)
        starts, ends = np.concatenate(([0], feeds + 1)), np.concatenate((feeds, [len(data)]))
        out = blank_lines(data, starts, ends) if self.dialect.ignore_leading_white_space else starts == ends
        return starts[~out], ends[~out]

    def whole_records(self, data: bytes) -> int:
        """Return how many bytes at the start are whole records, whatever follows; values may hold line ends."""
        feeds = self._ends(data)
        if len(feeds) and self.is_plain(data[: feeds[-1] + 1]):
            return int(feeds[-1]) + 1
        whole = 0
        for _, behind, _, ended in self._scanned(data.decode("latin-1")):
            if ended:
                whole = behind
        return whole

    def records(self, text: str) -> Iterator[tuple[int, int, Tokens]]:
        """Yield the start, the end and the values of each record, without empty records and comments.

        text: the bytes of the records, as Latin-1.
        """
        for start, behind, tokens, ended in self._scanned(text):
            if tokens:
                yield start, behind - 1 if ended else behind, tokens

    def _scanned(self, text: str) -> Iterator[tuple[int, int, Tokens, bool]]:
        at = 0
        while at < len(text):
            start = at
            if self.dialect.comment and text[at] == self.dialect.comment:
                at = text.find("\n", at) + 1 or len(text)
                yield start, at, [], text[at - 1] == "\n"
            else:
                tokens, at, ended = self.record(text, at)
                yield start, at, tokens, ended

    def _ends(self, data: bytes) -> Positions:
        """Return the positions of the line feeds that end records, if the records are plain."""
        text = np.frombuffer(data, np.uint8)
        feeds = np.flatnonzero(text == _NEWLINE)
        if not self.dialect.quote or self.dialect.quote.encode() not in data:
            return feeds
        before = np.searchsorted(np.flatnonzero(text == ord(self.dialect.quote)), feeds)
        outside: Positions = feeds[before % 2 == 0]
        return outside

    def _may_have_comments(self, data: bytes) -> bool:
        comment = self.dialect.comment.encode()
        return bool(comment) and (data.startswith(comment) or b"\n" + comment in data)

    def record(self, text: str, at: int) -> tuple[Tokens, int, bool]:
        """Return the values of the record at a position, the start of the next one, and whether a line feed ended it.

        text: the bytes of records, as Latin-1.  A record without a line feed ends with the text, or goes on after it.
        """
        tokens: Tokens = []
        leading, trailing = self.dialect.ignore_leading_white_space, self.dialect.ignore_trailing_white_space
        length = len(text)
        while True:
            if leading:
                while at < length and text[at] <= _BLANK and text[at] not in (self._sep, "\n", self._quote):
                    at += 1
            if at < length and text[at] == self._quote:
                value, end = self._quoted(text, at)
                tokens.append(value)
            else:
                match = self._value_end.search(text, at)
                end = match.start() if match else length
                value = text[at:end]
                if trailing:
                    value = _without_trailing_blanks(value)
                if end == at and not tokens and text[end : end + 1] != self._sep:
                    return [], min(end + 1, length), end < length
                tokens.append(value or None)
            if end >= length:
                return tokens, length, False
            at = end + 1
            if text[end] == "\n":
                return tokens, at, True

    def _quoted(self, text: str, at: int) -> tuple[str, int]:
        """Return the value that a quote opens, and the position of the separator or line end after the value.

        at: the position of the quote.
        """
        quote, escape, sep = self._quote, self._escape, self._sep
        parts: list[str] = []
        length = len(text)
        before, at = "", at + 1
        while at < length:
            character = text[at]
            if before == quote and (character <= _BLANK or character == sep):
                return self._closed(text, at, parts)
            if character in (quote, escape):
                if before and before == escape and (character == quote or escape != quote):
                    parts.append(character)
                    before = ""
                elif before == quote == character:
                    parts.append(quote)
                    before = quote
                elif before == quote:
                    return self._unescaped(text, at, parts)
                else:
                    before = character
                at += 1
                continue
            if before == quote:
                return self._unescaped(text, at, parts)
            if before:
                parts.append(escape)
            match = self._quoted_stop.search(text, at)
            if match is None:
                return "".join([*parts, text[at:]]), length
            parts.append(text[at : match.start()])
            before, at = match.group(), match.end()
        return ("".join(parts) if parts or before else quote), length

    def _closed(self, text: str, at: int, parts: list[str]) -> tuple[str, int]:
        """Return the value that the quote before a position closes; blanks after the quote are left out."""
        behind = at
        while behind < len(text) and text[behind] <= _BLANK and text[behind] not in (self._sep, "\n"):
            behind += 1
        if behind >= len(text) or text[behind] in (self._sep, "\n"):
            return "".join(parts), behind
        return self._unescaped(text, at, parts)

    def _unescaped(self, text: str, at: int, parts: list[str]) -> tuple[str, int]:
        """Return a value that goes on after its closing quote: all text up to the separator, quotes included."""
        match = self._value_end.search(text, at)
        end = match.start() if match else len(text)
        value = "".join([self._quote, *parts, self._quote, text[at:end]])
        return _without_trailing_blanks(value) if self.dialect.ignore_trailing_white_space else value, end


def _without_trailing_blanks(value: str) -> str:
    end = len(value)
    while end and value[end - 1] <= _BLANK:
        end -= 1
    return value[:end]


def blank_lines(data: bytes, starts: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
    """Return which lines hold only blanks (Java: String.trim)."""
    text = np.frombuffer(data + b"\n", np.uint8)
    blank: npt.NDArray[np.bool_] = text[starts] <= ord(_BLANK)
    for line in np.flatnonzero(blank):
        blank[line] = not data[starts[line] : ends[line]].strip(_BLANKS)
    return blank


_BLANKS = bytes(range(ord(_BLANK) + 1))
