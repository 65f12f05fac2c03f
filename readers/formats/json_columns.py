"""Reads JSON objects as whole columns at memory speed: objects whose wanted fields are scalars, or structs of them.

A compiled loop finds the values of the wanted fields, and checks the syntax of all others; Arrow converts what it has
found.  What the loop is not sure of is left to others, all objects of a call together, so that only they decide what
is malformed: NaN, a wanted field that comes twice or has another type, an escape in a name, and half a surrogate pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.arrow.arrays import booleans
from tidegate.readers.arrow.text_values import decimals
from tidegate.readers.arrow.texts import texts_at
from tidegate.readers.compiled import compiled

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Ints: TypeAlias = "npt.NDArray[np.int32]"

_MISSING, _NULL, _TEXT, _NUMBER, _TRUE, _FALSE, _OBJECT, _ESCAPED, _ARRAY = 0, *(1 << bit for bit in range(8))
_VALUE, _FIRST, _ITEM, _COLON, _AFTER = range(5)  # what comes next; _FIRST is what comes after an opening bracket
_ROOT = 0
_NOWHERE = -1  # the field of what nobody wants
_DEEPEST = 32
_MOST_BYTES = 2**31 - 1
_NAME_END, _HEAD, _NEXT_FIELD = range(3)  # the columns of _Known.links
_FEW = 8  # fields, which are looked through in less time than a name is hashed

_QUOTE, _BACKSLASH, _COMMA, _DIVIDER, _MINUS, _PLUS, _POINT, _ZERO, _N, _T, _U = b'"\\,:-+.0ntu'
_BRACE, _CLOSING_BRACE, _BRACKET, _CLOSING_BRACKET = b"{}[]"
_HEX_DIGITS = 4
_NEXT = np.uintp(1)


def _set_of(characters: bytes) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(256), list(characters))


_BLANKS, _DIGITS, _HEX = _set_of(b" \t\r\n"), _set_of(b"0123456789"), _set_of(b"0123456789abcdefABCDEF")
_EXPONENTS, _ESCAPES, _PLAIN = _set_of(b"eE"), _set_of(b'"\\/bfnrt'), ~_set_of(b'"\\' + bytes(range(32)))
_MEANINGS = np.arange(256, dtype=np.uint8)  # of a character behind a backslash
_MEANINGS[[*b"bfnrt"]] = [*b"\b\f\n\r\t"]
_DIGIT_OF = np.array([int(chr(code), 16) if _HEX[code] else 0 for code in range(256)], np.int64)
_LEAD, _TRAIL, _BEYOND_PAIRS = 0xD800, 0xDC00, 0xE000
_NULL_WORD, _TRUE_WORD, _FALSE_WORD = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))


class _Known(NamedTuple):
    """The fields of a schema by number: first the object itself, then its fields in a row, then those of structs.

    wants: what the values of each may be.
    begins, ends: the first field that each has, and the end of them.
    names: their names, behind each other.
    links: by field, the end of its name; of a struct of more than _FEW fields, which has as many buckets of names, the
        first field of each bucket, and the next one after each field.
    strict: an object with other fields is left to others.
    """

    wants: Ints
    begins: Ints
    ends: Ints
    names: Bytes
    links: Ints
    strict: bool


class _Found(NamedTuple):
    """What each field has in each object: its kind, and where its text begins and how long it is."""

    kinds: Any
    begins: Any
    lengths: Any


@dataclass(frozen=True)
class JsonColumns:
    """Reads objects to the columns of one schema."""

    _schema: pa.Schema
    _known: _Known

    @classmethod
    def of(cls, schema: pa.Schema, *, strict: bool) -> JsonColumns | None:
        """Return what reads objects to ``schema``; None: it has other types than texts, numbers, booleans, structs.

        strict: objects with other fields are left to others.
        """
        fields = [pa.field("", pa.struct(list(schema)))]
        spans = []
        for field in fields:  # which grows
            begin = len(fields)
            fields += list(field.type) if pa.types.is_struct(field.type) else []
            spans.append((begin, len(fields)))
        wants = [_OBJECT, *(_wanted(field.type) for field in fields[1:])]
        if None in wants:
            return None
        names = [field.name.encode() for field in fields]
        begins, ends = np.array(spans, np.int32).T.copy()
        data = np.frombuffer(b"".join(names) or b"\0", np.uint8)
        links = np.full((len(fields), 3), _NOWHERE, np.int32)
        links[:, _NAME_END] = np.cumsum([*map(len, names)])
        for begin, end in spans:
            for field in range(end - 1, begin - 1, -1) if end - begin > _FEW else ():
                size = len(names[field])
                bucket = begin + _bucket(data, int(links[field, _NAME_END]) - size, size, end - begin)
                links[bucket, _HEAD], links[field, _NEXT_FIELD] = field, links[bucket, _HEAD]
        return cls(schema, _Known(np.array(wants, np.int32), begins, ends, data, links, strict))

    def read(self, data: bytes, ends: Ints) -> list[pa.Array] | None:
        """Return columns with a row for each object; None: some are left to others.

        data: an object in each text, behind each other, all in UTF-8.  Blanks and line ends may stand around objects.
        ends: where each text ends.

        Raises ArrowInvalid for a number that does not fit its type, and for half a surrogate pair.
        """
        if len(data) > _MOST_BYTES:
            return None
        text = np.frombuffer(data, np.uint8)
        shape = len(self._known.wants), len(ends)
        found = _Found(np.zeros(shape, np.uint8), np.zeros(shape, np.int32), np.zeros(shape, np.int32))
        if not _find(text, ends, self._known, found):
            return None
        return [*self._columns(list(self._schema), _ROOT, text, found)]

    def _columns(self, fields: list[pa.Field], parent: int, text: Bytes, found: _Found) -> Iterator[pa.Array]:
        for place, field in enumerate(fields, int(self._known.begins[parent])):
            kinds, kind = found.kinds[place], field.type
            nulls = kinds <= _NULL
            present = booleans(~nulls).buffers()[1] if nulls.any() else None
            if pa.types.is_struct(kind):
                inner = [*self._columns(list(kind), place, text, found)]
                yield pa.Array.from_buffers(kind, len(kinds), [present], children=inner)
            elif pa.types.is_boolean(kind):
                yield pa.Array.from_buffers(kind, len(kinds), [present, booleans(kinds == _TRUE).buffers()[1]])
            elif (kinds == _ESCAPED).any():
                yield _unescaped(text, found.begins[place], found.lengths[place], present)
            else:
                texts = texts_at(text, found.begins[place], found.lengths[place], present, pa.string())
                yield decimals(texts, kind) if pa.types.is_decimal(kind) else texts.cast(kind)


def _wanted(kind: pa.DataType) -> int | None:
    """Return what the values of a field of a type may be; None: only others can read such a field."""
    are = pa.types
    if are.is_struct(kind):
        return _NULL | _OBJECT
    if are.is_string(kind):
        return _NULL | _TEXT | _ESCAPED
    if are.is_signed_integer(kind) or are.is_float32(kind) or are.is_float64(kind) or are.is_decimal(kind):
        return _NULL | _NUMBER
    return (_NULL | _TRUE | _FALSE) if are.is_boolean(kind) else None


def _unescaped(data: Bytes, begins: Ints, lengths: Ints, present: pa.Buffer | None) -> pa.StringArray:
    """Return parts of ``data`` as texts, with what their escapes stand for.  Raises ArrowInvalid for half a pair."""
    ends = np.zeros(len(begins) + 1, np.int32)
    texts = np.empty(int(lengths.sum()), np.uint8)
    if not _copy_unescaped(data, begins, lengths, ends, texts):
        raise pa.ArrowInvalid("half a surrogate pair")
    parts = pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]])
    return pa.Array.from_buffers(pa.string(), len(begins), [present, *parts])


@compiled
def _copy_unescaped(data: Bytes, begins: Ints, lengths: Ints, ends: Ints, texts: Bytes) -> bool:
    """Copy texts behind each other, which are shorter without escapes; return whether all of them are UTF-8 then."""
    to = 0
    for row in range(len(begins)):
        at = begins[row]
        stop = at + lengths[row]
        while at < stop:
            byte = data[at]
            at += 1
            if byte == _BACKSLASH:
                byte = data[at]
                at += 1
                if byte == _U:
                    code = _hexadecimal(data, at)
                    at += _HEX_DIGITS
                    if _LEAD <= code < _TRAIL and at < stop and data[at] == _BACKSLASH:
                        trail = _hexadecimal(data, at + 2) if data[at + 1] == _U else 0
                        if _TRAIL <= trail < _BEYOND_PAIRS:
                            code = 0x10000 + ((code - _LEAD) << 10) + trail - _TRAIL
                            at += 2 + _HEX_DIGITS
                    if _LEAD <= code < _BEYOND_PAIRS:
                        return False
                    to = _write(code, texts, to)
                    continue
                byte = _MEANINGS[byte]
            texts[to] = byte
            to += 1
        ends[row + 1] = to
    return True


@compiled
def _hexadecimal(data: Bytes, at: int) -> int:
    number = 0
    for place in range(at, at + _HEX_DIGITS):
        number = number << 4 | _DIGIT_OF[data[place]]
    return number


@compiled
def _write(code: int, texts: Bytes, to: int) -> int:
    """Write a character in UTF-8; return its end."""
    if code < 0x80:
        texts[to] = code
        return to + 1
    more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    texts[to] = 0xFF00 >> more + 1 & 0xFF | code >> 6 * more
    for place in range(1, more + 1):
        texts[to + place] = 0x80 | code >> 6 * (more - place) & 0x3F
    return to + 1 + more


@compiled
def _past(data: Bytes, at: int, stop: int, characters: npt.NDArray[np.bool_]) -> int:
    """Return the first place from one on that has none of some characters."""
    while at < stop and characters[data[at]]:
        at += 1
    return at


@compiled
def _past_plain(data: Bytes, at: int, stop: int) -> int:
    """Return the first place from one on with a quote, a backslash or a control character, which ends plain text."""
    # The index is unsigned: it cannot count from the end, so the loop needs no check for that.
    place, end = np.uintp(at), np.uintp(stop)
    while place < end and _PLAIN[data[place]]:
        place += _NEXT
    return np.intp(place)  # type: ignore[no-any-return]


@compiled
def _escaped_end(data: Bytes, at: int, stop: int) -> int:
    """Return the closing quote of a text, from its first odd character on; a broken text ends past ``stop``."""
    while at + 1 < stop and data[at] == _BACKSLASH:
        at += 1
        if data[at] == _U:
            digits = at + 1
            at = digits + _HEX_DIGITS
            if at > stop or _past(data, digits, at, _HEX) < at:
                return stop + 1
        elif _ESCAPES[data[at]]:
            at += 1
        else:
            return stop + 1
        at = _past_plain(data, at, stop)
    return at if at < stop and data[at] == _QUOTE else stop + 1


@compiled
def _past_digits(data: Bytes, at: int, stop: int) -> int:
    """Return where a run of digits ends; without a digit, a place past ``stop``."""
    end = _past(data, at, stop, _DIGITS)
    return end if end > at else stop + 1


@compiled
def _past_number(data: Bytes, at: int, stop: int) -> int:
    """Return where a number ends; a broken one ends past ``stop``."""
    if data[at] == _MINUS:
        at += 1
    is_zero = at < stop and data[at] == _ZERO
    at = at + 1 if is_zero else _past_digits(data, at, stop)
    if at < stop and data[at] == _POINT:
        at = _past_digits(data, at + 1, stop)
    if at < stop and _EXPONENTS[data[at]]:
        at += 1
        if at < stop and data[at] in (_PLUS, _MINUS):
            at += 1
        at = _past_digits(data, at, stop)
    return at


@compiled
def _past_word(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return which word stands at a place and where it ends; if it is no word of JSON, it ends past ``stop``."""
    kind, word = _FALSE, _FALSE_WORD
    if data[at] == _N:
        kind, word = _NULL, _NULL_WORD
    elif data[at] == _T:
        kind, word = _TRUE, _TRUE_WORD
    if len(word) > stop - at:
        return kind, stop + 1
    for place in range(len(word)):
        if data[at + place] != word[place]:
            return kind, stop + 1
    return kind, at + len(word)


@compiled
def _bucket(data: Bytes, name: int, size: int, count: int) -> int:
    """Return the bucket of a name, of so many; the hash is FNV-1a."""
    code = 0
    for place in range(name, name + size):
        code = ((code ^ data[np.uintp(place)]) * 0x1000193) & 0xFFFFFFFF
    return code * count >> 32


@compiled
def _is_called(field: int, data: Bytes, name: int, size: int, names: Bytes, links: Ints) -> bool:
    begin = links[field - 1, _NAME_END]
    if links[field, _NAME_END] - begin != size:
        return False
    same = 0
    while same < size and names[begin + same] == data[name + same]:
        same += 1
    return same == size


@compiled
def _field(  # noqa: PLR0917 - a call with all of _Known takes 0.1 us
    data: Bytes, name: int, size: int, first: int, end: int, likely: int, names: Bytes, links: Ints
) -> int:
    """Return which field of a struct has a name, or _NOWHERE; ``likely`` is tried first, as most objects are alike."""
    field = likely if first <= likely < end else first
    if end - first <= _FEW:
        for _ in range(first, end):
            if _is_called(field, data, name, size, names, links):
                return field
            field = field + 1 if field + 1 < end else first
        return _NOWHERE
    if not _is_called(field, data, name, size, names, links):
        field = links[first + _bucket(data, name, size, end - first), _HEAD]
        while field != _NOWHERE and not _is_called(field, data, name, size, names, links):
            field = links[field, _NEXT_FIELD]
    return field


@compiled
def _find(data: Bytes, ends: Ints, known: _Known, found: _Found) -> bool:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Note what each object has in the wanted fields; return whether the loop is sure of all of them."""
    structs, are_arrays = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST, np.bool_)
    structs[0], are_arrays[0] = _NOWHERE, True
    names, links = known.names, known.links
    at = likely = 0
    for row in range(len(ends)):
        stop = ends[row]
        deep, field, state = 0, _ROOT, _VALUE
        while True:
            while at < stop and _BLANKS[data[np.uintp(at)]]:
                at += 1
            if at >= stop:
                break
            byte = data[np.uintp(at)]
            if state == _COLON and byte == _DIVIDER:
                state = _VALUE
                at += 1
            elif (
                deep
                and state in (_AFTER, _FIRST)
                and byte == (_CLOSING_BRACKET if are_arrays[deep] else _CLOSING_BRACE)
            ):
                deep -= 1
                state = _AFTER
                at += 1
            elif deep and state == _AFTER and byte == _COMMA:
                state = _ITEM
                at += 1
            elif state in (_COLON, _AFTER):
                return False
            else:
                is_name = state != _VALUE and not are_arrays[deep]
                if is_name and byte != _QUOTE:
                    return False
                state = _AFTER
                begin = end = at
                if byte == _QUOTE:
                    begin = at + 1
                    end = _past_plain(data, begin, stop)
                    escaped = end >= stop or data[end] != _QUOTE
                    if escaped:
                        end = _escaped_end(data, end, stop)
                    kind = _ESCAPED if escaped else _TEXT
                    at = end + 1
                    if is_name:
                        field = _NOWHERE
                        if structs[deep] != _NOWHERE:
                            if escaped:
                                return False
                            first, last = known.begins[structs[deep]], known.ends[structs[deep]]
                            field = _field(data, begin, end - begin, first, last, likely, names, links)
                            if known.strict and field == _NOWHERE:
                                return False
                            if field != _NOWHERE:
                                likely = field + 1
                        state = _COLON
                        continue
                elif byte in (_BRACE, _BRACKET):
                    deep += 1
                    if deep == _DEEPEST:
                        return False
                    structs[deep], are_arrays[deep] = field, byte == _BRACKET
                    kind = _ARRAY if byte == _BRACKET else _OBJECT
                    state = _FIRST
                    at += 1
                elif byte == _MINUS or _DIGITS[byte]:
                    kind, end = _NUMBER, _past_number(data, at, stop)
                    at = end
                else:
                    kind, end = _past_word(data, at, stop)
                    at = end
                # What is broken ends past the object, which is then not closed.
                if field != _NOWHERE:
                    if found.kinds[field, row] != _MISSING or not known.wants[field] & kind:
                        return False
                    found.kinds[field, row], found.begins[field, row] = kind, begin
                    found.lengths[field, row] = end - begin
        if deep or state != _AFTER:
            return False
    return True
