"""Options as text: names, durations, and errors that Spark shows as one sentence."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, get_args

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.alias_generators import to_camel

from tidegate.errors import ContractError, OptionError, TidegateError, did_you_mean

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("tidegate.planner")
_USER = re.compile(  # a secret may hold a slash, and in a value that is a URL also a space or a quote
    r"(\A[^\s'\"]*?//)[^:/@]*(?::.*)?@|(//)[^\s'\":/@]*(?::[^\s'\"]*)?@", re.DOTALL
)
_SIGN = re.compile(r"([+-]?)\s*(.*)", re.DOTALL)
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_UNITS = {
    **dict.fromkeys(("w", "week"), "weeks"),
    **dict.fromkeys(("d", "day"), "days"),
    **dict.fromkeys(("h", "hr", "hour"), "hours"),
    **dict.fromkeys(("m", "min", "minute"), "minutes"),
    **dict.fromkeys(("s", "sec", "second"), "seconds"),
    **dict.fromkeys(("ms", "milli", "millisecond"), "milliseconds"),
    **dict.fromkeys(("us", "micro", "microsecond"), "microseconds"),
}
_MOST_DAYS = 106_751  # in nanoseconds, as many fit into a Long


def schema_of(columns: StructType) -> pa.Schema:
    """Return columns of Spark as Arrow's."""
    from tidegate.spark_private import to_arrow_schema  # options go without PySpark

    schema: pa.Schema = to_arrow_schema(columns, timezone="UTC")
    return schema


def as_schema(value: Any) -> Any:
    """Return columns of Spark as Arrow's, and anything else as it is."""
    types = sys.modules.get("pyspark.sql.types")
    return schema_of(value) if types is not None and isinstance(value, types.StructType) else value


def lower_case(value: Any) -> Any:
    """Return text in lower case, and anything else as it is."""
    return value.lower() if isinstance(value, str) else value


def parse_duration(value: Any) -> timedelta:
    """Read a duration such as "10 minutes", "1 hour 30 minutes" or "500 ms"; pass a timedelta on.

    Raises ValueError for anything else, including a number without a unit.
    """
    if isinstance(value, timedelta):
        return value
    sign, remainder = _SIGN.fullmatch(str(value).strip()).groups()  # type: ignore[union-attr] # it always matches
    parts = _PART.findall(remainder)
    if remainder.replace(".", "", 1).isdecimal():
        raise ValueError("a duration needs a unit, such as '10 minutes' or '500 ms'")
    names = [_UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s")) for _, unit in parts]
    if not parts or None in names or _PART.sub("", remainder):
        raise ValueError("expected a duration such as '10 minutes', '1 hour 30 minutes' or '500 ms'")
    try:
        length = sum((timedelta(**{str(n): float(p[0])}) for n, p in zip(names, parts, strict=True)), timedelta())
    except OverflowError:
        length = timedelta.max
    if length.days > _MOST_DAYS:
        raise ValueError(f"a duration is at most {_MOST_DAYS} days")
    return -length if sign == "-" else length


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]


def option_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the Spark option of every field: its serialization alias, or its name in camelCase."""
    return {name: field.serialization_alias or to_camel(name) for name, field in model.model_fields.items()}


def sentence(error: ValidationError, valid: Mapping[str, str]) -> OptionError:
    """Turn the first complaint of pydantic into one sentence that names option, value and remedy.

    valid: maps each name that pydantic may complain about to the name that the user knows.

    The value of a field with ``repr=False``, and user and password in a URL, are left out: they may be secret.
    """
    complaints = error.errors()
    # A misspelt name comes first, because it explains the missing one.
    first = next((fault for fault in complaints if fault["type"] == "extra_forbidden"), complaints[0])
    name = str(first["loc"][0]) if first["loc"] else ""
    shown = valid.get(name, name)
    if first["type"] == "extra_forbidden":
        return OptionError(f"there is no option {shown!r}{did_you_mean(shown, valid.values())}")
    if first["type"] == "missing":
        return OptionError(f"the option {shown!r} is missing")
    value = first["input"]
    field = _field(error.title, name)
    reason = _reason(first, field)
    if not name:
        return OptionError(reason)
    if field is not None and not field.repr:
        return OptionError(f"the option {shown!r} is malformed: {reason}")
    value = without_login(value) if isinstance(value, str) else value
    return OptionError(f"the option {shown!r} is {value!r}: {reason}")


def without_login(text: str) -> str:
    """Remove user and password from a URL."""
    return _USER.sub(r"\1\2", text)


def _reason(complaint: ErrorDetails, field: FieldInfo | None) -> str:  # noqa: PLR0911 - one for each kind
    """Return the allowed values, in words for users who do not know pydantic."""
    context = complaint.get("ctx", {})
    match complaint["type"]:
        case "value_error":
            return str(context["error"])
        case "bool_parsing" | "bool_type":
            return "expected true or false"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return f"expected a whole number{_lower_limit(field)}"
        case "greater_than" | "greater_than_equal":
            (limit,) = context.values()  # a text that is none of these
            kind = {int: "a whole number", float: "a number"}.get(type(limit), "a duration")
            return f"expected {kind}{_lower_limit(field) or f' beyond {limit}'}"
        case "literal_error":
            value, allowed = complaint["input"], re.findall("'([^']*)'", context["expected"])
            hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
            return f"expected {context['expected']}{hint}"
        case "string_type":
            several = isinstance(complaint["input"], list | tuple)
            return f"expected text{', several values separated by commas' if several else ''}"
        case "too_short" | "string_too_short" if context["min_length"] == 1:
            return "it is empty"
        case _:
            return complaint["msg"].replace("Input should be", "expected")


def _lower_limit(field: FieldInfo | None) -> str:
    """Return the lower limit in the type of a field, as a clause; empty without one."""
    types = [] if field is None else [field, *get_args(field.annotation)]
    constraints = [limit for of in types for limit in getattr(of, "metadata", getattr(of, "__metadata__", ()))]
    constraints += [inner for limit in constraints for inner in getattr(limit, "metadata", ())]  # of a Field inside
    for constraint in constraints:
        if hasattr(constraint, "gt"):
            return f" above {_limit(constraint.gt)}"
        if hasattr(constraint, "ge"):
            return f" of {_limit(constraint.ge)} or more"
    return ""


def _limit(limit: Any) -> str:
    if not isinstance(limit, timedelta):
        return str(limit)
    return f"{limit / timedelta(milliseconds=1):g} ms" if limit else "0"


def _field(title: str, name: str) -> FieldInfo | None:
    """Return a field by its model's title, which is all that pydantic's error has; if several match, a secret one."""
    fields: list[FieldInfo] = []
    models = [BaseModel]
    while models:
        model = models.pop()
        models += model.__subclasses__()
        if model.__name__ == title and name in model.model_fields:
            fields.append(model.model_fields[name])
    return min(fields, key=lambda field: field.repr, default=None)


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Let Spark show an error that is not a bug as its sentence, without a stack trace.

    Spark looks at the variable when the exception reaches it, and then ends the worker process.
    """
    try:
        yield
    except ContractError:
        raise
    except TidegateError:
        if not _LOG.isEnabledFor(logging.DEBUG):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def sentence_of(error: PySparkException) -> str:
    """Return the sentence in an error of Spark, without its codes and without the plan that follows."""
    text = str(error).strip().removeprefix(f"[{error.getCondition()}] ")
    return re.split(r" SQLSTATE|;?\n|;$", text)[0]
