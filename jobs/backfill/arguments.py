"""The arguments of a back-fill, and the source that they describe; each connector has a module for its own."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pydantic import TypeAdapter

from tidegate.alignment.durations import milliseconds
from tidegate.enumerators.contract import Json
from tidegate.errors import OptionError
from tidegate.sources.options import parse_duration
from tidegate.sources.source import Source

_TIME: TypeAdapter[datetime] = TypeAdapter(datetime)
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillArguments(ABC):
    """The rows to read, and the size of batches.  Each connector has a subclass.

    max_drift: the slice of event time that a batch covers.
    begin, end: a range of event times, the end exclusive.  A Kafka partition is read from its first record at or after
        ``begin`` up to its first record at or after ``end``.  None: from the beginning, or to the present end.
    options: further Spark options of the source; they may be secret.
    """

    max_drift: timedelta
    begin: datetime | None = None
    end: datetime | None = None
    max_out_of_orderness: timedelta = timedelta(0)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.begin is not None and self.end is not None and self.begin >= self.end:
            raise OptionError(f"--from is {self.begin.isoformat()}, but it must lie before --to {self.end.isoformat()}")

    @abstractmethod
    def source(self) -> Source:
        """Return the source.  Raises OptionError for arguments that the source refuses."""

    def source_options(self) -> dict[str, str]:
        """Return the options of the source.  Raises OptionError for one that contradicts another argument."""
        drift, disorder = milliseconds(self.max_drift), milliseconds(self.max_out_of_orderness)
        times = {"startingTimestamp": self.begin, "endingTimestamp": self.end}
        own = {
            "maxDrift": f"{drift} ms",
            "maxOutOfOrderness": f"{disorder} ms",
            **{name: time.isoformat() for name, time in times.items() if time is not None},
            **self._own_options(),
        }
        names = {name.lower() for name in own}
        for name in self.options:
            if name.lower() in names:
                raise OptionError(f"--option {name} is set by the command itself; leave it out")
        return {**own, **self.options}

    def _option(self, name: str) -> str | None:
        """Return a further option of the source."""
        return next((value for option, value in self.options.items() if option.lower() == name.lower()), None)

    @abstractmethod
    def _own_options(self) -> dict[str, str]:
        """Return the arguments as options of the source."""

    def binding(self) -> dict[str, Any]:
        """Return, by option, the values that decide which rows are written: no later run may change them.

        Addresses may change, and so may options that only affect the cuts of batches.  No value is secret.
        """
        return {
            "--from": None if self.begin is None else self.begin.isoformat(),
            "--to": None if self.end is None else self.end.isoformat(),
        }

    @abstractmethod
    def look(self, state: Json | None) -> None:
        """Look at the source before Spark starts, which takes long, so that a wrong argument is told at once.

        state: the snapshot after the last written batch.

        Raises OptionError if it belongs to another source, and the errors of ``SplitEnumerator.discover``.
        """


def parse_time(option: str, text: str) -> datetime:
    """Read a time: ISO 8601, in UTC without a zone, or milliseconds since the epoch.

    Raises OptionError, which names the option.
    """
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


def parse_options(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    """Read ``name=value`` pairs.  Raises OptionError, which never shows a value."""
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise OptionError(f"{option} {name!r} has no value; expected {example}")
        options[name] = value
    return options


def parse_properties(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read ``key=value`` pairs; a prefix ``kafka.`` is removed.

    Raises OptionError, which never shows a value.
    """
    pairs = parse_options(option, texts, "key=value, such as security.protocol=SSL")
    return {key.removeprefix("kafka."): value for key, value in pairs.items()}
