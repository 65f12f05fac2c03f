"""Reads arguments of the command line: times, durations, options of sources and properties of Kafka clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from pydantic import TypeAdapter

from tidegate.errors import OptionError
from tidegate.sources.options import parse_duration

OPTION_EXAMPLE = "NAME=VALUE, such as eventTime=column:at"
_TIME: TypeAdapter[datetime] = TypeAdapter(datetime)
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_time(option: str, text: str | None) -> datetime | None:
    """Read a time, if one is given: ISO 8601, in UTC without a zone, or milliseconds since the epoch.

    Raises OptionError, which names the option.
    """
    if text is None:
        return None
    try:
        if not re.match(r"\s*\d{4}-", text):  # pydantic takes numbers for seconds
            return _EPOCH + int(text) * _MILLISECOND
        time = _TIME.validate_python(text.strip())
    except (ValueError, OverflowError):
        raise OptionError(
            f"{option} is {text!r}, but a time is expected, such as 2026-01-31, 2026-01-31T12:00Z or milliseconds "
            "since 1970"
        ) from None
    return (time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


def parse_span(option: str, text: str) -> timedelta:
    """Read a duration such as ``1 hour``.  Raises OptionError, which names the option."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise OptionError(f"{option} is {text!r}: {error}") from None


def span_text(option: str, text: str | None) -> str | None:
    """Return a duration, if one is given, as an option of a source takes it.

    Raises OptionError, which names the option.
    """
    if text is not None:
        parse_span(option, text)
    return text


def parse_options(option: str, texts: Iterable[str] | None, example: str = OPTION_EXAMPLE) -> dict[str, str]:
    """Read ``name=value`` pairs; None: there are none.  Raises OptionError, which never shows a value."""
    options = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise OptionError(f"{option} {name!r} has no value; expected {example}")
        options[name] = value
    return options


def parse_properties(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    """Read ``key=value`` pairs; a prefix ``kafka.`` is removed.

    Raises OptionError, which never shows a value.
    """
    pairs = parse_options(option, texts, "key=value, such as security.protocol=SSL")
    return {key.removeprefix("kafka."): value for key, value in pairs.items()}
