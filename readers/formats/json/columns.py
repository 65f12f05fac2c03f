"""Converts lines of flat JSON objects to Arrow columns by compiled loops; JsonLines reads all other lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.readers.compiled import compiled
from tidegate.readers.formats.json.tokens import (
    BACKSLASH,
    ESCAPED,
    FALSE,
    LETTER_U,
    MINUS,
    NINE,
    NONE,
    NUMBER,
    POINT,
    TEXT,
    TRUE,
    WHOLE,
    ZERO,
    Tokenizer,
    hex_digit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from tidegate.readers.formats.json.tokens import Bytes, Ints

__all__ = ["FlatLines"]

MOST_DIGITS = 18  # any number with so many digits is an int64
MOST_EXACT = 2**53  # up to this, all integers are exact as doubles
POWERS = 10.0 ** np.arange(23)  # all powers of ten that are exact as doubles
SIMPLE_ESCAPES = np.zeros(256, np.uint8)
SIMPLE_ESCAPES[np.frombuffer(b'"\\/bfnrt', np.uint8)] = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)
LOST = -1  # the status of a loop that met a broken text


class FlatLines:
    """Makes tables of a schema from lines.

    schema: the columns, of types that ``takes`` allows.
    surplus: refuse lines with a name that is no column.
    """

    def __init__(self, schema: pa.Schema, *, surplus: bool) -> None:
        self._schema = schema
        self._tokenizer = Tokenizer(schema.names, surplus=surplus)

    @staticmethod
    def takes(schema: pa.Schema) -> bool:
        """Return whether a schema has columns, and all are integers, doubles, strings or booleans."""
        return bool(schema.names) and all(field.type in _TYPES for field in schema)

    def table(self, data: bytes) -> pa.Table | None:
        r"""Return a row for each line that is not blank; None: JsonLines has to read the lines, which may be valid.

        data: lines in UTF-8, the last with ``\n``; less than 2 GiB.
        """
        text = np.frombuffer(data, np.uint8)
        tokens = self._tokenizer.tokens(text)
        if tokens is None:
            return None
        columns = [_Column(*parts) for parts in zip(*tokens, strict=True)]
        try:
            arrays = [_array(text, column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        except pa.ArrowInvalid:
            return None
        return pa.table(arrays, schema=self._schema)


class _Column(NamedTuple):
    """The tokens of one column, by row; see Tokens.

    seen: a bit for each kind that occurs.
    """

    kinds: Bytes
    starts: Ints
    lengths: Ints
    seen: np.int32


def _array(text: Bytes, column: _Column, kind: pa.DataType) -> pa.Array:
    """Return the values of a column; raises ArrowInvalid for tokens that may not be of this type."""
    kinds, read, stored = _TYPES[kind]
    if column.seen & ~sum(1 << token for token in (NONE, *kinds)):
        raise pa.ArrowInvalid("a token of another kind")
    present = column.kinds != NONE
    validity = None if present.all() else _bits(present)
    return pa.Array.from_buffers(stored, len(present), [validity, *read(text, column)]).cast(kind)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _booleans(_text: Bytes, column: _Column) -> list[pa.Buffer]:
    return [_bits(column.kinds == TRUE)]


def _integers(text: Bytes, column: _Column) -> list[pa.Buffer]:
    values = np.empty(len(column.kinds), np.int64)
    if not _read_integers(text, column.kinds, column.starts, column.lengths, values):
        raise pa.ArrowInvalid("an integer that is no int64, or its least one")
    return [pa.py_buffer(values)]


def _doubles(text: Bytes, column: _Column) -> list[pa.Buffer]:
    rows = len(column.kinds)
    values, hard = np.empty(rows, np.float64), np.empty(rows, np.int32)
    count = _read_doubles(text, column.kinds, column.starts, column.lengths, values, hard)
    if count:
        hard = hard[:count]
        buffers = _gathered(text, np.full(count, TEXT, np.uint8), column.starts[hard], column.lengths[hard])
        values[hard] = pa.Array.from_buffers(pa.string(), count, [None, *buffers]).cast(pa.float64()).to_numpy()
    return [pa.py_buffer(values)]


def _texts(text: Bytes, column: _Column) -> list[pa.Buffer]:
    return _gathered(text, column.kinds, column.starts, column.lengths)


def _gathered(text: Bytes, kinds: Bytes, starts: Ints, lengths: Ints) -> list[pa.Buffer]:
    """Return the buffers of an Arrow string array: the offsets and the bytes of texts."""
    ends = np.zeros(len(kinds) + 1, np.int32)
    gathered = np.empty(lengths.sum(), np.uint8)  # escapes are longer than their characters
    size = _gather(text, kinds, starts, lengths, ends, gathered)
    if size == LOST:
        raise pa.ArrowInvalid("half a surrogate pair")
    return [pa.py_buffer(ends), pa.py_buffer(gathered[:size])]


_Read: TypeAlias = "Callable[[Bytes, _Column], list[pa.Buffer]]"
_TYPES: Mapping[pa.DataType, tuple[tuple[int, ...], _Read, pa.DataType]] = {
    **{kind: ((WHOLE,), _integers, pa.int64()) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    pa.float64(): ((WHOLE, NUMBER), _doubles, pa.float64()),
    pa.string(): ((TEXT, ESCAPED), _texts, pa.string()),
    pa.bool_(): ((TRUE, FALSE), _booleans, pa.bool_()),
}
"""By type: the tokens of its values, the loop that makes Arrow's buffers, and the type of the buffers."""


@compiled
def _unsigned(text: Bytes, start: int, length: int) -> tuple[int, int, bool]:
    """Return the start and the end of a number's digits, and whether the number is negative."""
    negative = text[start] == MINUS
    return start + negative, start + length, negative


@compiled
def _read_integers(text: Bytes, kinds: Bytes, starts: Ints, lengths: Ints, values: npt.NDArray[np.int64]) -> bool:
    for row in range(len(kinds)):
        value = 0
        if kinds[row] != NONE:
            at, stop, negative = _unsigned(text, starts[row], lengths[row])
            if stop - at > MOST_DIGITS + 1:
                return False
            for index in range(at, stop):
                value = value * 10 + (np.int64(text[index]) - ZERO)
            if value < 0:  # a number of MOST_DIGITS + 1 digits overflows once at most, to a negative number
                return False
            if negative:
                value = -value
        values[row] = value
    return True


@compiled
def _read_doubles(
    text: Bytes, kinds: Bytes, starts: Ints, lengths: Ints, values: npt.NDArray[np.float64], hard: Ints
) -> int:
    """Fill in ``values`` where a double is the quotient of two exact ones.

    Fills in the other rows in ``hard``, and returns their number.  A quotient of two exact doubles is rounded correctly
    (Clinger, How to read floating point numbers accurately, 1990).
    """
    count = 0
    for row in range(len(kinds)):
        value = 0.0
        if kinds[row] != NONE:
            at, stop, negative = _unsigned(text, starts[row], lengths[row])
            digits, exponent, fraction = 0, 0, 0
            easy = stop - at <= MOST_DIGITS
            if easy:
                for index in range(at, stop):
                    byte = text[index]
                    if byte == POINT:
                        fraction = 1
                    elif byte > NINE:  # an exponent
                        easy = False
                        break
                    else:
                        digits = digits * 10 + (np.int64(byte) - ZERO)
                        exponent += fraction
            if easy and digits <= MOST_EXACT:
                value = digits / POWERS[exponent]
                if negative:
                    value = -value
            else:
                hard[count] = row
                count += 1
        values[row] = value
    return count


@compiled
def _gather(text: Bytes, kinds: Bytes, starts: Ints, lengths: Ints, ends: Ints, gathered: Bytes) -> int:
    """Copy texts one after the other, and replace their escapes; return their size, or LOST."""
    at = 0
    for row in range(len(kinds)):
        if kinds[row] == TEXT:
            # A negative index would count from the end.  With unsigned ones, the compiler copies sixteen bytes at a
            # time.
            source, target = np.uintp(starts[row]), np.uintp(at)
            for index in range(np.uintp(lengths[row])):
                gathered[target + index] = text[source + index]
            at += lengths[row]
        elif kinds[row] == ESCAPED:
            at = _unescape(text, starts[row], starts[row] + lengths[row], gathered, at)
            if at == LOST:
                return LOST
        ends[row + 1] = at
    return at


@compiled
def _unescape(text: Bytes, start: int, stop: int, gathered: Bytes, at: int) -> int:
    """Copy a text, and replace its escapes; return the end of the copy, or LOST for half of a surrogate pair."""
    while start < stop:
        byte = text[start]
        start += 1
        if byte != BACKSLASH:
            gathered[at] = byte
            at += 1
            continue
        escape = text[start]
        start += 1
        if escape != LETTER_U:
            gathered[at] = SIMPLE_ESCAPES[escape]
            at += 1
            continue
        point = _code_unit(text, start)
        start += 4
        if 0xD800 <= point < 0xE000:
            if point >= 0xDC00 or stop - start < 6 or text[start] != BACKSLASH or text[start + 1] != LETTER_U:
                return LOST
            low = _code_unit(text, start + 2)
            if not 0xDC00 <= low < 0xE000:
                return LOST
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
            start += 6
        at = _encode(point, gathered, at)
    return at


@compiled
def _code_unit(text: Bytes, at: int) -> int:
    unit = 0
    for index in range(at, at + 4):
        unit = unit << 4 | hex_digit(text[index])
    return unit


@compiled
def _encode(point: int, gathered: Bytes, at: int) -> int:
    """Write a code point as UTF-8, and return the position after it."""
    if point < 0x80:
        gathered[at] = point
        return at + 1
    tails = 1 if point < 0x800 else 2 if point < 0x10000 else 3
    gathered[at] = (0xFF << (7 - tails) & 0xFF) | point >> 6 * tails
    for tail in range(tails - 1, -1, -1):
        at += 1
        gathered[at] = 0x80 | (point >> 6 * tail & 0x3F)
    return at + 1
