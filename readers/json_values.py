"""JSON values as Spark's JSON reader takes them into columns (Spark: JacksonParser)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from functools import partial
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError

__all__ = ["Convert", "MisfitError", "Real", "Whole", "binary_of", "converter_of", "json_object", "plain_value"]

_LONGEST_INT64 = 20  # characters
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_NOT_FINITE = {"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"}
_DECIMAL = re.compile("[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# What Spark takes as a date or a time beyond ISO 8601 (Spark: DateTimeUtils).
_DATE = re.compile("([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?")
_TIME = re.compile(
    "(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T]"
    "(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:[.](?P<fraction>[0-9]{1,9}))?)?"
    "(?P<zone> ?(?:Z|(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<offset_hour>[0-9]{1,2})(?::?(?P<offset_minute>[0-5][0-9]))?"
    "|UTC|GMT|UT|(?P<region>[A-Za-z_]+/[A-Za-z_/+-]+)))?)?)?)?"
)

Convert: TypeAlias = Callable[[Any], Any]


class Whole(str):
    """A number without fraction and exponent, as it is written."""

    __slots__ = ()


class Real(str):
    """Any other number, NaN and the infinities included."""

    __slots__ = ()


class MisfitError(ValueError):
    """A value that a column's type does not take."""


def json_object(name: str, offset: int, line: bytes) -> dict[str, Any]:
    """Return a line as a JSON object whose numbers are texts; see plain_value.

    Raises CorruptDataError, which names the object and where the line begins, if it is none.
    """
    where = f"{name}: the line at byte {offset} is no JSON object"
    try:
        node = json.loads(line.decode(), parse_int=Whole, parse_float=Real, parse_constant=Real)
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"{where}: its byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise CorruptDataError(f"{where}: {error.msg} at its character {error.pos}") from None
    except RecursionError:
        raise CorruptDataError(f"{where} that can be read: it is nested too deeply") from None
    if not isinstance(node, dict):
        raise CorruptDataError(where)
    return node


def plain_value(node: object) -> object:
    """Return a value of json_object, a number as int, or as float where that has a fraction or is large."""
    if isinstance(node, Whole) and len(node) <= _LONGEST_INT64:
        return int(node)
    return float(node) if isinstance(node, Whole | Real) else node


def converter_of(name: str, kind: pa.DataType) -> Convert:  # noqa: C901, PLR0911 - one branch a type
    """Return what makes of a JSON value that is not null one that Arrow takes for ``kind``.

    It raises MisfitError for a value that does not fit.
    """
    types = pa.types
    if types.is_struct(kind):
        return partial(_struct, {field.name: converter_of(f"{name}.{field.name}", field.type) for field in kind})
    if types.is_list(kind):
        return partial(_list, converter_of(name, kind.value_type))
    if types.is_map(kind) and types.is_string(kind.key_type):
        return partial(_map, converter_of(name, kind.item_type))
    if types.is_boolean(kind):
        return partial(_expect, bool)
    if types.is_signed_integer(kind):
        return partial(_whole, kind.bit_width)
    if types.is_floating(kind):
        return _real
    if types.is_string(kind) or types.is_large_string(kind):
        return _text
    if types.is_decimal(kind):
        return partial(_decimal, kind)
    if types.is_timestamp(kind) and kind.unit == "us":
        return partial(_timestamp, kind.tz is not None)
    if types.is_date32(kind):
        return _date
    if types.is_binary(kind):
        return binary_of
    if types.is_null(kind):
        return lambda _: None
    raise OptionError(f"the column {name!r} cannot be read from JSON as {kind}")


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise MisfitError
    return value


def _struct(fields: dict[str, Convert], value: Any) -> dict[str, Any]:
    found = _expect(dict, value)
    return {name: None if found.get(name) is None else convert(found[name]) for name, convert in fields.items()}


def _list(convert: Convert, value: Any) -> list[Any]:
    return [None if item is None else convert(item) for item in _expect(list, value)]


def _map(convert: Convert, value: Any) -> list[tuple[str, Any]]:
    found = _expect(dict, value).items()
    return [(_text(key), None if item is None else convert(item)) for key, item in found]


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


def _text(value: Any) -> str:
    text = str(value) if isinstance(value, str) else _json(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON allows and UTF-8 does not: as Java does
        return text.encode(errors="replace").decode()
    return text


def _json(node: Any) -> str:
    """Return a value of json_object as JSON again, without blanks; numbers as they were written."""
    if isinstance(node, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(value)}" for name, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_json, node)) + "]"
    return str(node) if isinstance(node, Whole | Real) else json.dumps(node, ensure_ascii=False)


def _decimal(kind: pa.DataType, value: Any) -> Decimal:
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise MisfitError
    try:
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, Context(prec=100))
    except DecimalException:
        raise MisfitError from None
    if abs(rounded) >= Decimal(10) ** (kind.precision - kind.scale):
        raise MisfitError
    return rounded


def _date(value: Any) -> date:
    found = _DATE.fullmatch(value.strip()) if type(value) is str else None
    if found is None:
        raise MisfitError
    try:
        return date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        raise MisfitError from None


def _timestamp(has_zone: bool, value: Any) -> int:
    """Return microseconds since the epoch; a number counts seconds."""
    if isinstance(value, Whole) and has_zone:
        return _whole(64, Whole(value + "000000"))
    found = _TIME.fullmatch(value.strip()) if type(value) is str else None
    if found is None or (found["zone"] and not has_zone):
        raise MisfitError
    year, month, day = (int(found[part] or 1) for part in ("year", "month", "day"))
    hour, minute, second, offset_hour, offset_minute = (
        int(found[part] or 0) for part in ("hour", "minute", "second", "offset_hour", "offset_minute")
    )
    microsecond = int((found["fraction"] or "")[:6].ljust(6, "0"))
    try:
        zone = ZoneInfo(found["region"]) if found["region"] else timezone.utc
        local = datetime(year, month, day, hour, minute, second, microsecond, zone)
    except (ValueError, LookupError, OSError):  # no such time; no such zone
        raise MisfitError from None
    offset = timedelta(hours=offset_hour, minutes=offset_minute) * (-1 if found["sign"] == "-" else 1)
    return (local - _EPOCH - offset) // _MICROSECOND


def binary_of(value: Any) -> bytes:
    """Return the bytes of a Base64 text; raises MisfitError for anything else."""
    try:
        return base64.b64decode(_expect(str, value), validate=True)
    except ValueError:
        raise MisfitError from None
