"""What a back-fill was asked to do, and how it becomes a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.errors import OptionError
from tidegate.sources.kafka import KafkaSource
from tidegate.sources.options import parse_duration

__all__ = ["BackfillArguments", "parse_properties", "parse_span", "parse_time"]

_TIME: TypeAdapter[datetime] = TypeAdapter(datetime)
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class BackfillArguments:
    """What to read, from when to when, and how to cut it.

    begin: read from each partition's first record at or after this time; None: from its beginning.
    end: stop before each partition's first record at or after this time; None: at its present end.
    max_drift: the slice of event time that a batch covers.
    max_rows_per_batch: a batch covers at most so many offsets; None: any number.
    kafka: properties of the client, such as security; they may be secret.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    max_drift: timedelta
    begin: datetime | None = None
    end: datetime | None = None
    max_out_of_orderness: timedelta = timedelta(0)
    max_rows_per_batch: int | None = None
    include_headers: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.begin is not None and self.end is not None and self.begin >= self.end:
            raise OptionError(f"--from is {self.begin.isoformat()}, but it must lie before --to {self.end.isoformat()}")

    def source(self) -> KafkaSource:
        """Return the source.  Raises OptionError for arguments that it refuses."""
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(self.max_out_of_orderness)
        return KafkaSource(
            bootstrap_servers=self.bootstrap_servers,
            subscribe=self.topics,
            kafka=dict(self.kafka),
            starting_offsets="earliest" if self.begin is None else None,
            starting_timestamp=self.begin,
            # A partition that ends before --from has nothing to read, which is no error.
            starting_offsets_by_timestamp_strategy="latest",
            ending_timestamp=self.end,
            max_offsets_per_trigger=self.max_rows_per_batch,
            include_headers=self.include_headers,
            watermarks=strategy.with_watermark_alignment(max_drift=self.max_drift),
        )

    def binding(self) -> dict[str, Any]:
        """Return, by option, what decides which rows the output holds: no later run may change it.

        Addresses may change, and so may all that only decides how batches are cut.
        """
        return {
            "--topic": list(self.topics),
            "--from": None if self.begin is None else self.begin.isoformat(),
            "--to": None if self.end is None else self.end.isoformat(),
            "--include-headers": self.include_headers,
        }


def parse_time(option: str, text: str) -> datetime:
    """Read a time: ISO 8601, in UTC where it names no zone, or milliseconds since the epoch.

    Raises OptionError, which names the option.
    """
    try:
        if text.strip().isdecimal():
            return _EPOCH + int(text) * _MILLISECOND
        time = _TIME.validate_python(text.strip())
    except (ValidationError, OverflowError):
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


def parse_properties(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read ``key=value`` pairs; a prefix ``kafka.`` is taken off.

    Raises OptionError, which never shows a value.
    """
    properties = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionError(f"{option} {key!r} has no value; expected key=value, such as security.protocol=SSL")
        properties[key.removeprefix("kafka.")] = value
    return properties
