"""The compiled loop that finds the values of wanted fields in JSON objects, at memory speed.

It checks the syntax of all other fields.  What it is not sure of it leaves to others, so that only they decide what is
malformed: NaN, a wanted field or a key of a map that comes twice, a wanted field of another type, an escape in a name.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.readers.compiled import compiled

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Ints: TypeAlias = "npt.NDArray[np.int32]"

MISSING, NULL, TEXT, NUMBER, TRUE, FALSE, OBJECT, ESCAPED, ARRAY = 0, *(1 << bit for bit in range(8))
"""The kinds of values, as bits."""
ROOT, NOWHERE = 0, -1
"""The field that is the object itself, and the field of what nobody wants."""
NAME_END, HEAD, NEXT_FIELD = range(3)
"""The columns of Known.links."""
FEW = 8
"""Up to this number of fields, comparing a name with each is faster than hashing it."""

_VALUE, _FIRST, _ITEM, _COLON, _AFTER = range(5)  # what comes next; _FIRST is what comes after an opening bracket
_DEEPEST = 32
_MOST_ENTRIES = 1000  # of a map, because each key is compared with all before it

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


class Known(NamedTuple):
    """The fields of a schema by number: first the object itself, then its fields in a row, then those of each of them.

    The elements of an array are a field, and the keys and the values of a map are two.  Their table has a row for each
    element or entry.  Of ``id INT, tags MAP<STRING, INT>`` the fields are 0 (the object), 1 (id), 2 (tags), 3 (the
    keys) and 4 (the values).  Table 0, with a row for each object, has the fields 0 to 2, and table 1 has 3 and 4.

    wants: what the values of each may be.
    begins, ends: the first field that each has, and the end of them.
    tables: the table of each.
    adds_to: the table in which an array has its elements, or a map its entries; NOWHERE: the field is neither.
    names: their names, behind each other.
    links: by field, the end of its name; of a struct of more than FEW fields, which has as many buckets of names, the
        first field of each bucket, and the next one after each field.
    strict: an object with other fields is left to others.
    """

    wants: Ints
    begins: Ints
    ends: Ints
    tables: Ints
    adds_to: Ints
    names: Bytes
    links: Ints
    strict: bool


class Found(NamedTuple):
    """What each field has in each row of its table: its kind, and where its text begins and how long it is.

    The begin and the length of an array, or a map, are rows of the table that it adds to: its first, and how many.

    starts: where the rows of each field begin in the first three.
    rows: how many rows each table has so far, with that which is being read.
    """

    kinds: Any
    begins: Any
    lengths: Any
    starts: Any
    rows: Any


@compiled
def copy_unescaped(data: Bytes, begins: Ints, lengths: Ints, ends: Ints, texts: Bytes) -> bool:
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
    """Return the kind of the word at a place, and its end; the end is past ``stop`` if JSON has no such word."""
    kind, word = FALSE, _FALSE_WORD
    if data[at] == _N:
        kind, word = NULL, _NULL_WORD
    elif data[at] == _T:
        kind, word = TRUE, _TRUE_WORD
    if len(word) > stop - at:
        return kind, stop + 1
    for place in range(len(word)):
        if data[at + place] != word[place]:
            return kind, stop + 1
    return kind, at + len(word)


@compiled
def bucket_of(data: Bytes, name: int, size: int, count: int) -> int:
    """Return the bucket of a name, of so many; the hash is FNV-1a."""
    code = 0
    for place in range(name, name + size):
        code = ((code ^ data[np.uintp(place)]) * 0x1000193) & 0xFFFFFFFF
    return code * count >> 32


@compiled
def _is_called(field: int, data: Bytes, name: int, size: int, names: Bytes, links: Ints) -> bool:
    begin = links[field - 1, NAME_END]
    if links[field, NAME_END] - begin != size:
        return False
    same = 0
    while same < size and names[begin + same] == data[name + same]:
        same += 1
    return same == size


@compiled
def _field(  # noqa: PLR0917 - a call with all of Known takes 0.1 us
    data: Bytes, name: int, size: int, first: int, end: int, likely: int, names: Bytes, links: Ints
) -> int:
    """Return which field of a struct has a name, or NOWHERE; ``likely`` is tried first, as most objects are alike."""
    field = likely if first <= likely < end else first
    if end - first <= FEW:
        for _ in range(first, end):
            if _is_called(field, data, name, size, names, links):
                return field
            field = field + 1 if field + 1 < end else first
        return NOWHERE
    if not _is_called(field, data, name, size, names, links):
        field = links[first + bucket_of(data, name, size, end - first), HEAD]
        while field != NOWHERE and not _is_called(field, data, name, size, names, links):
            field = links[field, NEXT_FIELD]
    return field


@compiled
def _notes_key(data: Bytes, begin: int, size: int, place: int, count: int, found: Found) -> bool:
    """Note a key of a map behind so many others; return whether it is not one of them."""
    for earlier in range(place - count, place):
        if found.lengths[earlier] == size:
            same, at = 0, found.begins[earlier]
            while same < size and data[at + same] == data[begin + same]:
                same += 1
            if same == size:
                return False
    found.kinds[place], found.begins[place], found.lengths[place] = TEXT, begin, size
    return count < _MOST_ENTRIES


@compiled
def find(data: Bytes, ends: Ints, known: Known, found: Found) -> bool:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Note what each object has in the wanted fields; return whether the loop is sure of all of them."""
    # By the depth: the field and the place of what is open, and whether it is an array.
    opened, places = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST, np.int64)
    are_arrays = np.empty(_DEEPEST, np.bool_)
    opened[0], are_arrays[0] = NOWHERE, True
    names, links, rows = known.names, known.links, found.rows
    at = likely = 0
    for row in range(len(ends)):
        stop = ends[row]
        rows[0] = row + 1
        deep, field, state = 0, ROOT, _VALUE
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
                if opened[deep] != NOWHERE and known.adds_to[opened[deep]] != NOWHERE:
                    found.lengths[places[deep]] = rows[known.adds_to[opened[deep]]] - found.begins[places[deep]]
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
                if state != _VALUE and are_arrays[deep]:
                    field = opened[deep]
                    if field != NOWHERE:
                        rows[known.adds_to[field]] += 1
                        field = known.begins[field]
                state = _AFTER
                begin = end = at
                if byte == _QUOTE:
                    begin = at + 1
                    end = _past_plain(data, begin, stop)
                    escaped = end >= stop or data[end] != _QUOTE
                    if escaped:
                        end = _escaped_end(data, end, stop)
                    kind = ESCAPED if escaped else TEXT
                    at = end + 1
                    if is_name:
                        field = NOWHERE
                        parent = opened[deep]
                        if parent != NOWHERE:
                            if escaped:
                                return False
                            first, table = known.begins[parent], known.adds_to[parent]
                            if table == NOWHERE:
                                field = _field(
                                    data, begin, end - begin, first, known.ends[parent], likely, names, links
                                )
                                if known.strict and field == NOWHERE:
                                    return False
                                if field != NOWHERE:
                                    likely = field + 1
                            else:
                                place = found.starts[first] + rows[table]
                                count = rows[table] - found.begins[places[deep]]
                                if not _notes_key(data, begin, end - begin, place, count, found):
                                    return False
                                rows[table] += 1
                                field = first + 1
                        state = _COLON
                        continue
                elif byte in (_BRACE, _BRACKET):
                    deep += 1
                    if deep == _DEEPEST:
                        return False
                    opened[deep], are_arrays[deep] = field, byte == _BRACKET
                    kind = ARRAY if byte == _BRACKET else OBJECT
                    state = _FIRST
                    at += 1
                elif byte == _MINUS or _DIGITS[byte]:
                    kind, end = NUMBER, _past_number(data, at, stop)
                    at = end
                else:
                    kind, end = _past_word(data, at, stop)
                    at = end
                # What is broken ends past the object, which is then not closed.
                if field != NOWHERE:
                    place = found.starts[field] + rows[known.tables[field]] - 1
                    if found.kinds[place] != MISSING or not known.wants[field] & kind:
                        return False
                    found.kinds[place] = kind
                    found.begins[place], found.lengths[place] = begin, end - begin
                    if kind & (OBJECT | ARRAY):
                        places[deep] = place
                        if known.adds_to[field] != NOWHERE:
                            found.begins[place] = rows[known.adds_to[field]]
        if deep or state != _AFTER:
            return False
    return True
