"""Cuts lines of JSON into tokens: the kinds and the positions of the values of some columns.

A compiled loop walks over lines that hold one flat object each, by the grammar of RFC 8259.  It gives up at any other
line, valid or not.

pyarrow.json 26 does not suffice.  It refuses a number for a column of strings, and a key that comes twice.  One bad
line fails the whole block.  Spark's rules for strings need the positions of values in the text, which it does not
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tidegate.readers.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = [
    "BACKSLASH",
    "ESCAPED",
    "FALSE",
    "LETTER_U",
    "MINUS",
    "NINE",
    "NONE",
    "NUMBER",
    "POINT",
    "TEXT",
    "TRUE",
    "WHOLE",
    "ZERO",
    "Bytes",
    "Ints",
    "Tokenizer",
    "Tokens",
    "hex_digit",
]

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Ints: TypeAlias = "npt.NDArray[np.int32]"

NONE, WHOLE, NUMBER, TEXT, ESCAPED, TRUE, FALSE = range(7)
"""Kinds of tokens.

NONE is null, or no value; WHOLE is an integer, and NUMBER any other number.  TEXT has no escapes, and ESCAPED has some.
"""

ODD = -1  # the status of a loop that gave up
UNKNOWN, UNSEEN = -1, -2  # columns: the name is no column's; no line before had a name at this place
MOST_NAMES = 1024  # the number of names of a line whose columns are remembered for the next line
TAB, RETURN, SPACE, QUOTE, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON = b'\t\r "+,-.09:'
OPENING, CLOSING, BACKSLASH, NEWLINE, LETTER_U, LETTER_E = b"{}\\\nue"


class Tokens(NamedTuple):
    """The kinds and positions of the values of columns.

    kinds: the kind of each value, by column and row.
    starts, lengths: the position of each value in the text, in bytes, without the quotes of a text; undefined for NONE.
    seen: by column, a bit for each kind that occurs.
    """

    kinds: Bytes
    starts: Ints
    lengths: Ints
    seen: Ints


class Tokenizer:
    """Finds the values of columns.

    names: the names of the columns in lines.
    surplus: give up at a line with any other name.
    """

    def __init__(self, names: Sequence[str], *, surplus: bool) -> None:
        encoded = [name.encode() for name in names]
        self._names = np.frombuffer(b"".join(encoded), np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
        self._surplus = surplus

    def tokens(self, text: Bytes) -> Tokens | None:
        r"""Return the values of lines; None: some line is not one flat object in which each name comes once.

        text: the lines, the last with ``\n``; less than 2 GiB.  Whether they are UTF-8 is not checked.
        """
        columns, rows = len(self._ends) - 1, int(np.count_nonzero(text == NEWLINE))
        kinds = np.zeros((columns, rows), np.uint8)
        starts, lengths = np.empty((columns, rows), np.int32), np.zeros((columns, rows), np.int32)
        seen = np.zeros(columns, np.int32)
        read = _tokenize(text, self._names, self._ends, self._surplus, kinds, starts, lengths, seen)
        return None if read == ODD else Tokens(kinds[:, :read], starts[:, :read], lengths[:, :read], seen)


@compiled
def _tokenize(  # noqa: C901, PLR0911, PLR0912, PLR0917 - Numba takes arguments by position, and has no references
    text: Bytes,
    names: Bytes,
    name_ends: Ints,
    surplus: bool,
    kinds: Bytes,
    starts: Ints,
    lengths: Ints,
    seen: Ints,
) -> int:
    """Fill in the tokens, and return the number of objects, or ODD.

    Only the loop over lines steps past the end of a line, so other loops need not check for the end of the text.
    """
    layout = np.empty((MOST_NAMES, 3), np.int32)  # start, length and column of each name in the line before
    layout[:, 2] = UNSEEN
    last_row = np.full(len(name_ends), -1, np.int32)
    at = row = 0
    while at < len(text):
        at = _after_blanks(text, at)
        if text[at] == NEWLINE:
            at += 1
            continue
        if text[at] != OPENING:
            return ODD
        at = _after_blanks(text, at + 1)
        member = 0
        while text[at] != CLOSING or member:
            if text[at] != QUOTE:
                return ODD
            column, at = _name(text, at + 1, names, name_ends, layout, member)
            if at == ODD:
                return ODD
            at = _after_blanks(text, at + 1)
            if text[at] != COLON:
                return ODD
            at = _after_blanks(text, at + 1)
            kind, start, stop, at = _value(text, at)
            if kind == ODD:
                return ODD
            if column != UNKNOWN:
                if last_row[column] == row:
                    return ODD
                last_row[column] = row
                kinds[column, row] = kind
                starts[column, row] = start
                lengths[column, row] = stop - start
                seen[column] |= 1 << kind
            elif surplus:
                return ODD
            member += 1
            at = _after_blanks(text, at)
            if text[at] == CLOSING:
                break
            if text[at] != COMMA:
                return ODD
            at = _after_blanks(text, at + 1)
        at = _after_blanks(text, at + 1)
        if text[at] != NEWLINE:
            return ODD
        at += 1
        row += 1
    return row


@compiled
def _after_blanks(text: Bytes, at: int) -> int:
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@compiled
def _name(text: Bytes, start: int, names: Bytes, name_ends: Ints, layout: Ints, member: int) -> tuple[int, int]:
    """Return the column of a name, or UNKNOWN, and the position of its closing quote.

    The position is ODD if there is no closing quote, or if the name has escapes.
    """
    if member < MOST_NAMES:
        # Most lines have the same names in the same order as the line before.
        length, column = layout[member, 1], layout[member, 2]
        if column != UNSEEN and _same(text, start, text, layout[member, 0], length) and text[start + length] == QUOTE:
            return column, start + length
    end, escaped = _text_end(text, start)
    if end == ODD or escaped:
        return UNKNOWN, ODD
    length, column = end - start, UNKNOWN
    for index in range(len(name_ends) - 1):
        begin = name_ends[index]
        if name_ends[index + 1] - begin == length and _same(text, start, names, begin, length):
            column = index
            break
    if member < MOST_NAMES:
        layout[member, 0] = start
        layout[member, 1] = length
        layout[member, 2] = column
    return column, end


@compiled
def _same(left: Bytes, start: int, other: Bytes, begin: int, length: int) -> bool:
    for index in range(length):  # noqa: SIM110 - Numba has no all()
        if left[start + index] != other[begin + index]:
            return False
    return True


@compiled
def _value(text: Bytes, at: int) -> tuple[int, int, int, int]:
    """Return the kind of the value at a position, or ODD, its start and its end, and the position after it."""
    first = text[at]
    if first == QUOTE:
        end, escaped = _text_end(text, at + 1)
        kind = ODD if end == ODD else ESCAPED if escaped else TEXT
        return kind, at + 1, end, end + 1
    if first == MINUS or ZERO <= first <= NINE:
        end, whole = _number_end(text, at)
        kind = ODD if end == ODD else WHOLE if whole else NUMBER
        return kind, at, end, end
    # No word contains a line feed, so the comparison stops at the end of the line.
    if _same(text, at, _NULL, 0, len(_NULL)):
        return NONE, at, at, at + len(_NULL)
    if _same(text, at, _TRUE, 0, len(_TRUE)):
        return TRUE, at, at, at + len(_TRUE)
    if _same(text, at, _FALSE, 0, len(_FALSE)):
        return FALSE, at, at, at + len(_FALSE)
    return ODD, at, at, at


_NULL, _TRUE, _FALSE = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))


@compiled
def _text_end(text: Bytes, at: int) -> tuple[int, bool]:
    """Return the position of a text's closing quote, or ODD if it is no text, and whether the text has escapes."""
    escaped = False
    while text[at] != QUOTE:
        if text[at] < SPACE:
            return ODD, escaped
        if text[at] == BACKSLASH:
            escaped = True
            at += 1
            if text[at] == LETTER_U:
                for _ in range(4):
                    at += 1
                    if hex_digit(text[at]) == ODD:
                        return ODD, escaped
            elif not _ESCAPES[text[at]]:
                return ODD, escaped
        at += 1
    return at, escaped


_ESCAPES = np.isin(np.arange(256), np.frombuffer(b'"\\/bfnrt', np.uint8))


@compiled
def hex_digit(byte: int) -> int:
    """Return the value of a hexadecimal digit, or ODD."""
    if ZERO <= byte <= NINE:
        return int(byte) - ZERO
    lower = int(byte) | 0x20
    return lower - 0x57 if 0x61 <= lower <= 0x66 else ODD


@compiled
def _number_end(text: Bytes, at: int) -> tuple[int, bool]:
    """Return the end of a number, or ODD if it is no number, and whether it is an integer."""
    if text[at] == MINUS:
        at += 1
    whole = True
    begin = at
    at = _after_digits(text, at)
    if at == begin or (text[begin] == ZERO and at > begin + 1):
        return ODD, whole
    if text[at] == POINT:
        whole = False
        begin = at + 1
        at = _after_digits(text, begin)
        if at == begin:
            return ODD, whole
    if text[at] | 0x20 == LETTER_E:  # in either case
        whole = False
        begin = at + 1
        if text[begin] == PLUS or text[begin] == MINUS:
            begin += 1
        at = _after_digits(text, begin)
        if at == begin:
            return ODD, whole
    return at, whole


@compiled
def _after_digits(text: Bytes, at: int) -> int:
    while ZERO <= text[at] <= NINE:
        at += 1
    return at
