"""Converts JSON values as Spark's JSON reader does (Spark: JacksonParser)."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import json as arrow_json

from tidegate.errors import OptionError
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.arrow.text_values import caster_of

_LONGEST_INT64 = 20  # characters, sign included
DEEPEST = 200  # nested levels; what is deeper stays text, so that recursion stays within Python's limit
_DEEP = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]|NaN|-?Infinity', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_BLANKS, _PADDED = re.compile("[\0- ]+"), re.compile("(?<==)(?!=)")
_NOT_FINITE = {"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"}

Convert: TypeAlias = Callable[[Any], Any]


class Whole(str):
    """A number without a fraction and an exponent, as it is written."""

    __slots__ = ()


class Real(str):
    """Any other number as it is written, also NaN and the infinities."""

    __slots__ = ()


class Deep(str):
    """An object or array more than DEEPEST levels deep, as it is written."""

    __slots__ = ()


class MalformedError(ValueError):
    """A line is not a JSON object; the message gives the reason, without the line's content."""


class MisfitError(ValueError):
    """A value does not fit the type of its column: the part that fits, and what does not."""

    def __init__(self, partial: Any = None, misfits: Any = None) -> None:
        self.partial, self.misfits = partial, misfits


def json_object(line: bytes) -> dict[str, Any]:
    """Return a line as a JSON object whose numbers are texts, Whole or Real, and whose deepest parts are Deep.

    JSON allows half a surrogate pair, and UTF-8 does not.  It is replaced, as in Java.

    Raises MalformedError if it is not a JSON object.
    """
    clause = "is not a JSON object"
    try:
        text = line.decode()
        shallow, constants = _cut(text)
        node = _loaded(shallow, constants)
    except UnicodeDecodeError as error:
        raise MalformedError(f"{clause}: its byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f" at its character {error.pos}" if shallow == text else ""
        raise MalformedError(f"{clause}: {error.msg}{where}") from None
    except RecursionError:  # what is too deep does not end
        raise MalformedError(clause) from None
    if isinstance(node, list):
        raise MalformedError(f"{clause} but an array: write each value in a line of its own")
    if not isinstance(node, dict) or (shallow != text and not _is_object(line)):
        raise MalformedError(clause)
    return _in_utf8(node) if _SURROGATE.search(line) else node


def _cut(text: str) -> tuple[str, list[str]]:
    """Return a text with a NaN for each part that is too deep, and what its constants, in their order, stand for."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return text, []
    parts: list[str] = []
    constants: list[str] = []
    level = start = end = 0
    for token in _DEEP.finditer(text):
        if token[0] in {"{", "["}:
            level += 1
            start = token.start() if level == DEEPEST + 1 else start
        elif token[0] in {"}", "]"}:
            level -= 1
            if level == DEEPEST:
                parts += [text[end:start], "NaN"]
                end = token.end()
                constants.append(Deep(text[start:end]))
        elif level <= DEEPEST and token[0][0] != '"':
            constants.append(Real(token[0]))
    return "".join([*parts, text[end:]]), constants


def _is_object(line: bytes) -> bool:
    """Return whether pyarrow.json, which needs no recursion, reads a line as an object."""
    every = arrow_json.ParseOptions(explicit_schema=pa.schema([]), unexpected_field_behavior="ignore")
    whole = arrow_json.ReadOptions(use_threads=False, block_size=len(line) + 1)
    try:
        return bool(arrow_json.read_json(pa.BufferReader(line), whole, every).num_rows == 1)
    except pa.ArrowInvalid:
        return False


def _in_utf8(node: dict[str, Any]) -> Any:
    try:
        json.dumps(node, ensure_ascii=False).encode()  # most lines have whole pairs, such as those of emoji
    except UnicodeEncodeError:
        return _loaded(json_text(node), [])
    return node


def _loaded(text: str, constants: list[str]) -> Any:
    """Return a text as values; ``constants``: see ``_cut``."""
    constant = iter(constants).__next__
    named: Convert = (lambda _: constant()) if constants else Real
    return json.loads(text, parse_int=Whole, parse_float=Real, parse_constant=named)


def record_converter(schema: pa.Schema, *, surplus: bool) -> Convert:
    """Return the function that converts a value of json_object to one that Arrow takes for a struct of ``schema``.

    The function raises MisfitError for values that do not fit.  With ``surplus``, it also raises MisfitError for a key
    without a column, or a field of a nested struct.  ``partial`` has the values that fit, ``misfits`` the others, by
    column.  As in Spark, only the values that do not fit are null.  If an element of an array or a map does not fit,
    the whole array or map is null.

    Raises OptionError for a type that JSON cannot be read as.
    """
    return partial(_struct, {field.name: _converter_of(field.name, field.type, surplus) for field in schema}, surplus)


def _converter_of(name: str, kind: pa.DataType, surplus: bool) -> Convert:  # noqa: C901, PLR0911 - one branch a type
    types = pa.types
    if types.is_struct(kind):
        inner = {field.name: _converter_of(f"{name}.{field.name}", field.type, surplus) for field in kind}
        return partial(_struct, inner, surplus)
    if types.is_list(kind):
        return partial(_list, _converter_of(name, kind.value_type, surplus))
    if types.is_map(kind) and types.is_string(kind.key_type):
        return partial(_map, _converter_of(name, kind.item_type, surplus))
    if types.is_boolean(kind):
        return partial(_expect, bool)
    if types.is_signed_integer(kind):
        return partial(_whole, kind.bit_width)
    if types.is_float32(kind):
        return _single
    if types.is_float64(kind):
        return _real
    if types.is_string(kind) or types.is_large_string(kind):
        return _text
    cast = caster_of(kind)
    if cast is not None:
        return (
            partial(_decimal, cast)
            if types.is_decimal(kind)
            else partial(_time, cast, getattr(kind, "tz", None) is not None)
        )
    if types.is_binary(kind):
        return binary_of
    if types.is_null(kind):
        return lambda _: None
    raise OptionError(f"the column {name!r} cannot be read from JSON as {ddl_of(kind)}")


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise MisfitError
    return value


def _struct(fields: dict[str, Convert], surplus: bool, value: Any) -> dict[str, Any]:
    pairs = _expect(dict, value)
    struct, misfits = {}, {}
    for name, convert in fields.items():
        node = pairs.get(name)
        try:
            struct[name] = None if node is None else convert(node)
        except MisfitError as misfit:
            struct[name] = misfit.partial
            misfits[name] = node if misfit.misfits is None else misfit.misfits
    if surplus:
        misfits |= {name: node for name, node in pairs.items() if name not in fields and node is not None}
    if misfits:
        raise MisfitError(struct, misfits)
    return struct


def _list(convert: Convert, value: Any) -> list[Any]:
    return _items(convert, _expect(list, value))


def _map(convert: Convert, value: Any) -> list[tuple[str, Any]]:
    pairs = _expect(dict, value)
    keys = [*map(_text, pairs)]
    try:
        return [*zip(keys, _items(convert, pairs.values()), strict=True)]
    except MisfitError as misfit:
        raise MisfitError(misfit.partial and [*zip(keys, misfit.partial, strict=True)]) from None


def _items(convert: Convert, values: Iterable[Any]) -> list[Any]:
    items, fits = [], True
    for item in values:
        try:
            items.append(None if item is None else convert(item))
        except MisfitError as misfit:  # noqa: PERF203 - converting takes far longer
            if misfit.partial is None:
                raise MisfitError from None
            items.append(misfit.partial)
            fits = False
    if not fits:
        raise MisfitError(items)
    return items


def _whole(bits: int, value: Any) -> int:
    text = _expect(Whole, value)
    number = int(text) if len(text) <= _LONGEST_INT64 else 2**63
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise MisfitError
    return number


def _real(value: Any) -> float:
    if isinstance(value, Whole | Real) or (isinstance(value, str) and value in _NOT_FINITE):
        return float(value)
    raise MisfitError


def _single(value: Any) -> float:
    """Return a double that is rounded to the float32 next to a number, which the next double may not be."""
    number = _real(value)
    is_even = math.isfinite(number) and number and struct.pack("<d", number)[0] % 2 == 0
    if is_even and Decimal(value) != Decimal(number):
        return math.nextafter(number, math.inf if Decimal(value) > Decimal(number) else -math.inf)
    return number


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else json_text(value)


def json_text(node: Any) -> str:
    """Return a value as JSON that UTF-8 has, without blanks, and with numbers as they were written."""
    if isinstance(node, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(value)}" for name, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(json_text, node)) + "]"
    if isinstance(node, Whole | Real | Deep):
        return str(node)
    return json.dumps(node, ensure_ascii=False).encode(errors="replace").decode()


def _parsed(cast: Callable[[str], Any], text: str) -> Any:
    value = cast(text)
    if value is None:
        raise MisfitError
    return value


def _decimal(cast: Callable[[str], Any], value: Any) -> Any:
    return _parsed(cast, value if isinstance(value, str) else "")


def _time(cast: Callable[[str], Any], has_zone: bool, value: Any) -> Any:
    """Return a date or a time by Spark's rules; an integer counts seconds if the type has a zone."""
    if isinstance(value, Whole) and has_zone:
        return _whole(64, Whole(value + "000000"))
    return _parsed(cast, _expect(str, value))


def binary_of(value: Any) -> bytes:
    """Return the bytes of a Base64 text, whose groups of four may stand apart, and go on behind padding, as in Java.

    Raises MisfitError for any other value.
    """
    groups = _BLANKS.split(_expect(str, value))
    if any(len(group) % 4 for group in groups):
        raise MisfitError
    try:
        return b"".join(base64.b64decode(part, validate=True) for part in _PADDED.split("".join(groups)))
    except ValueError:
        raise MisfitError from None
