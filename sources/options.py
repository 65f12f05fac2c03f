"""Options as text: names, durations, and the one sentence that a wrong one gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.alias_generators import to_camel

from tidegate.errors import OptionError, did_you_mean

__all__ = ["Duration", "option_names", "parse_duration", "sentence"]

_USER = re.compile("//[^/]*@")


def parse_duration(value: Any) -> timedelta:
    """Read a duration such as "10 minutes", "1 hour 30 minutes" or "500 ms"; pass a timedelta on.

    Raises ValueError for anything else, a number without a unit included.
    """
    if isinstance(value, timedelta):
        return value
    import pandas as pd  # slow to import, and workers that read never parse an option

    text = str(value).strip()
    if text.replace(".", "", 1).lstrip("+-").isdecimal():
        raise ValueError("a duration needs a unit, such as '10 minutes' or '500 ms'")
    try:
        duration = pd.Timedelta(text)
    except (pd.errors.OutOfBoundsTimedelta, pd.errors.OutOfBoundsDatetime):
        raise ValueError(f"a duration is at most {pd.Timedelta.max.days} days") from None
    except (ValueError, OverflowError):
        raise ValueError("expected a duration such as '10 minutes', '1 hour 30 minutes' or '500 ms'") from None
    if duration is pd.NaT:
        raise ValueError("expected a duration such as '10 minutes'")
    found: timedelta = duration.to_pytimedelta()
    return found


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]


def option_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the Spark option of every field: its serialization alias, or its name in camelCase."""
    return {name: field.serialization_alias or to_camel(name) for name, field in model.model_fields.items()}


def sentence(error: ValidationError, valid: Mapping[str, str]) -> OptionError:
    """Turn the first complaint of pydantic into one sentence that names option, value and remedy.

    valid: for each name that pydantic may complain about, the name that the user knows it by.

    The value of a field with ``repr=False`` is not named, nor the user and the password of a URL: they may be secret.
    """
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    shown = valid.get(name, name)
    if first["type"] == "extra_forbidden":
        return OptionError(f"there is no option {shown!r}{did_you_mean(shown, valid.values())}")
    if first["type"] == "missing":
        return OptionError(f"the option {shown!r} is missing")
    reason = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    if not name:
        return OptionError(reason)
    if name in _unshown(error.title):
        return OptionError(f"the option {shown!r} is malformed: {reason}")
    value = first["input"]
    value = _USER.sub("//", value) if isinstance(value, str) else value
    return OptionError(f"the option {shown!r} is {value!r}: {reason}")


def _unshown(title: str) -> set[str]:
    """Return the fields with ``repr=False`` of the model with that title, of which alone pydantic's error knows."""
    unshown: set[str] = set()
    models = [BaseModel]
    while models:
        model = models.pop()
        models += model.__subclasses__()
        if model.__name__ == title:
            unshown |= {name for name, field in model.model_fields.items() if not field.repr}
    return unshown
