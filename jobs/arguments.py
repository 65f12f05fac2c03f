"""Reads arguments of the command line: times, durations, properties of Kafka clients, and the source that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pydantic import TypeAdapter

from tidegate.errors import OptionError
from tidegate.sources.kafka.java.properties import read_properties
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.options import parse_duration
from tidegate.sources.s3.source import S3Source
from tidegate.sources.source import Source

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


def parse_span(option: str, text: str | timedelta) -> timedelta:
    """Read a duration such as ``1 hour``, or pass one on.  Raises OptionError, which names the option."""
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
    """Read ``name=value`` pairs, or None.  Raises OptionError, which never shows a value."""
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


def named_source(
    path: str | None, of_kafka: Mapping[str, Any], own: Mapping[str, Any], options: Sequence[str] | None
) -> Source:
    """Return the source that the options of a command describe.

    path: ``--path``.
    of_kafka: the options for Kafka; None or empty: not given.
    own: the options of the source that the command sets; None: not given.
    options: further Spark options of the source; they may be secret.

    Raises OptionError, one sentence, if no source is named, or both are, for a malformed option, and for one that
    contradicts another.
    """
    given = {name: value for name, value in of_kafka.items() if value}
    if path is not None and given:
        raise OptionError(f"{next(iter(given))} is for Kafka, and --path for objects of S3; give one of them")
    own = {name: str(value) for name, value in own.items() if value is not None}
    own |= topic_options(given, ", or --path for objects of S3") if path is None else {"path": path}
    further = parse_options("--option", options)
    if contradicted := [name for name in further if name.lower() in {option.lower() for option in own}]:
        raise OptionError(f"--option {contradicted[0]} is set by the command itself; leave it out")
    return (KafkaSource if path is None else S3Source).from_options({**own, **further})


def topic_options(given: Mapping[str, Any], otherwise: str = "") -> dict[str, str]:
    """Return the options of a source for the options of a command for Kafka; None or empty: not given.

    otherwise: what may be given instead of topics.

    Raises OptionError, one sentence, if servers or topics are missing, and for malformed properties.
    """
    file = given.get("--kafka-properties")
    client = {} if file is None else read_properties("--kafka-properties", file)
    given = {"--bootstrap-servers": client.pop("bootstrap.servers", None), **given}
    if missing := [name for name in ("--bootstrap-servers", "--topic") if not given.get(name)]:
        are_missing = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise OptionError(f"{are_missing}: give --bootstrap-servers and --topic{otherwise}")
    client |= parse_properties("--kafka", given.get("--kafka"))
    return {
        "kafka.bootstrap.servers": given["--bootstrap-servers"],
        "subscribe": ",".join(given["--topic"]),
        **{f"kafka.{name}": value for name, value in client.items()},
    }
