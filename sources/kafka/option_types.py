"""Types of options with their own checks, and the points where a query starts and ends.

Partitions and points have the JSON of Spark's own Kafka source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, TypeAdapter

from tidegate.alignment.durations import epoch_ms
from tidegate.enumerators.kafka.offsets import ByTimestamp, OffsetPoint, OffsetsSpec
from tidegate.enumerators.kafka.subscription import check_pattern
from tidegate.errors import OptionError
from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.event_time.assigners import assigner_of, names_a_column
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import marks_of
from tidegate.readers.kafka.client import EARLIEST, LATEST
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.places.place import Place, check_location
from tidegate.readers.registry.client import RegistryConfig

if TYPE_CHECKING:
    from tidegate.readers.archive.archive import Archive

_ANY = RegistryConfig("http://any")  # whether there is a registry is checked with the other options
_LARGEST = 2**63 - 1  # of an offset or a time in Kafka's protocol
_POINTS = "for every partition, such as "
_EXAMPLE_OFFSETS = '{"orders": {"0": 23, "1": 7}}'
_EXAMPLE_TIMES = '{"orders": {"0": 1700000000000, "1": 1700000003600}}'
_TOPIC = re.compile(
    "[a-zA-Z0-9._-]{1,249}"
)  # LEGAL_CHARS and MAX_NAME_LENGTH of Kafka's Topic, which also refuses . and ..
_Topics = TypeVar("_Topics", bound=Iterable[str])
_PARTITIONS = 'the partitions of every topic, such as {"orders": [0, 1]}'


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError as error:
        raise ValueError(f"malformed JSON at character {error.pos}: {error.msg}") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"it names {repeated!r} twice")
    return dict(pairs)


def _whole(value: Any, least: int) -> int:
    """Return a number, perhaps given as text; refuse other values that int() would accept."""
    if isinstance(value, str):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
        raise ValueError(value)
    return value


def _points(value: Any, expected: str, example: str) -> Any:
    value = _parsed(value)
    if value is None:
        return None
    try:
        points = {
            str(topic): {_whole(p, 0): _whole(at, EARLIEST) for p, at in by_partition.items()}
            for topic, by_partition in value.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"expected {expected} {_POINTS}{example}") from None
    if not all(points.values()) or not points:
        raise ValueError(f"it names no partition; expected {expected} {_POINTS}{example}")
    return points


def _offsets(value: Any, *, words: str = "earliest, latest", numbers: str = "-2 (earliest) or -1 (latest)") -> Any:
    word = value.strip().lower() if isinstance(value, str) else None
    if value is None or word in {"earliest", "latest"}:
        return word
    if word is not None and not word.startswith("{"):
        raise ValueError(f"expected {words}, or an offset {_POINTS}{_EXAMPLE_OFFSETS}")
    return _points(value, f"an offset of 0 or more, {numbers}", _EXAMPLE_OFFSETS)


def _ending_offsets(value: Any) -> Any:
    return _offsets(value, words="latest", numbers="or -1 (latest)")


def _timestamps(value: Any) -> Any:
    return _points(value, "a time in milliseconds since 1970, -2 (earliest) or -1 (latest)", _EXAMPLE_TIMES)


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        # pydantic takes other numbers for seconds.
        return TypeAdapter(AwareDatetime).validate_python(value) if re.match(r"\d{4}-", value) else int(value)
    except ValueError:
        raise ValueError(
            "expected a time in milliseconds since 1970, or in ISO 8601 with a zone, such as 2026-11-22T10:00:00Z"
        ) from None


def _since_1970(value: int | datetime) -> int | datetime:
    # For Kafka, -1 and -2 are the ends of the log, and there are no records before 1970.
    if not 0 <= in_milliseconds(value) <= _LARGEST:
        raise ValueError("expected a time in milliseconds since 1970, or a datetime after it")
    return value


def _topic_name(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise ValueError(
            f"{name!r} cannot be the name of a topic; expected letters, digits, dots, underscores and hyphens, "
            "and commas between names"
        )
    return name


def _topic_pattern(pattern: str) -> str:
    pattern = pattern.strip()  # as Spark does
    if not pattern:
        raise ValueError("expected a regular expression that names of topics match")
    check_pattern(pattern)
    return pattern


def _with_topic_names(topics: _Topics) -> _Topics:
    for name in topics:
        _topic_name(name)
    return topics


def _topics(value: Any) -> Any:
    if isinstance(value, str):
        value = [topic.strip() for topic in value.split(",") if topic.strip()]
    return tuple(dict.fromkeys(value)) if isinstance(value, list | tuple) else value


def _assigned(value: Any) -> Any:
    value = _parsed(value)
    if value is None:
        return None
    try:
        assigned = {str(topic): _numbers(partitions) for topic, partitions in value.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"expected {_PARTITIONS}") from None
    if not all(assigned.values()):
        raise ValueError(f"it names no partition of {min(t for t in assigned if not assigned[t])!r}")
    return assigned


def _numbers(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):  # "12" would be 1 and 2
        raise TypeError(value)
    return tuple(dict.fromkeys(_whole(partition, 0) for partition in value))


def _event_time(value: Any) -> Any:
    if isinstance(value, str):
        if not names_a_column(value):
            assigner_of(value, None, _ANY)
    elif not callable(value):
        expected = "timestamp, value.COLUMN, header:NAME, json:/pointer, avro:/field, protobuf:/field, or a function"
        raise ValueError(f"expected {expected}")  # noqa: TRY004
    return value


def _archive(value: str) -> str:
    kind, _, place = value.partition(":")
    if kind == "iceberg":
        if not all(place.split(".")) or place.count(".") < 2:
            raise ValueError("expected the name of a table, such as iceberg:catalog.bronze.orders")
        return value
    try:
        check_location(place if kind == "delta" else value)
    except OptionError:
        raise
    except ValueError as error:
        raise ValueError(f"{error}, or a table: delta: and one of these, or iceberg:catalog.namespace.table") from None
    return value


def _archive_columns(value: Any) -> Any:
    return TableColumns.of_text(value) if isinstance(value, str) else value


def _watermark_from(value: str) -> str:
    marks_of(value, _ANY)
    return value


_Offsets: TypeAlias = Literal["earliest", "latest"] | dict[str, dict[int, int]]
StartingOffsets: TypeAlias = Annotated[_Offsets, BeforeValidator(_offsets)]
EndingOffsets: TypeAlias = Annotated[_Offsets, BeforeValidator(_ending_offsets)]
Timestamps: TypeAlias = Annotated[dict[str, dict[int, int]], BeforeValidator(_timestamps)]
Timestamp: TypeAlias = Annotated[int | AwareDatetime, BeforeValidator(_time), AfterValidator(_since_1970)]
TopicPattern: TypeAlias = Annotated[str, AfterValidator(_topic_pattern)]
Topics: TypeAlias = Annotated[Sequence[str], BeforeValidator(_topics), AfterValidator(_with_topic_names)]
Partitions: TypeAlias = Annotated[
    dict[str, Sequence[int]], BeforeValidator(_assigned), AfterValidator(_with_topic_names)
]
EventTimeOption: TypeAlias = Annotated[str | Callable[..., Any], BeforeValidator(_event_time)]
ArchiveLocation: TypeAlias = Annotated[str, AfterValidator(_archive)]
ArchiveColumns: TypeAlias = Annotated[TableColumns, BeforeValidator(_archive_columns)]
Location: TypeAlias = Annotated[str, AfterValidator(check_location)]
WatermarkFrom: TypeAlias = Annotated[str, AfterValidator(_watermark_from)]


def check_bad_records(path: str | None, policy: EventTimePolicy, *, is_typed: bool) -> None:
    """Raise ValueError for a place that contradicts the policy.

    is_typed: values or keys are decoded, and may be bad whatever the policy.
    """
    if path is None:
        return
    if policy.bad == "ignore" and not is_typed:
        raise ValueError(
            "badRecordsPath is set, but badEventTime is 'ignore', which refuses no record; set it to fail or "
            "record-timestamp"
        )
    if policy.future == "fail":
        # Such a record is not bad, only early: read later, it would be a row of the query.
        raise ValueError(
            "badRecordsPath is set, but futureEventTime is 'fail', which refuses records by the time of the clock; set "
            "it to ignore or hold"
        )


def in_milliseconds(timestamp: Timestamp) -> int:
    """Return a time in milliseconds since the epoch."""
    return timestamp if isinstance(timestamp, int) else epoch_ms(timestamp)


def archive_at(location: str | None, columns: TableColumns | None) -> Archive | None:
    """Return the archive at a location, if there is one."""
    if location is None:
        return None
    kind = location.partition(":")[0]
    if kind == "delta":
        from tidegate.readers.archive.delta import DeltaArchive

        return DeltaArchive(location, columns or TableColumns())
    if kind == "iceberg":
        from tidegate.readers.archive.iceberg import IcebergArchive

        return IcebergArchive(location, columns or TableColumns())
    from tidegate.enumerators.archive.listing import ParquetArchive  # most queries need no Parquet

    return ParquetArchive(Place(location))


def committed_only(config: KafkaConnectionConfig, given: Mapping[str, Any]) -> KafkaConnectionConfig:
    """Return the configuration that shows of Kafka what an archive holds: committed records.

    Raises ValueError if the given properties say otherwise.
    """
    if "isolation.level" in given and config.isolation_level != "read_committed":
        raise ValueError(
            f"kafka.isolation.level is {config.isolation_level!r}, but an archive holds only committed records"
        )
    return replace(config, isolation_level="read_committed")


def given_points(
    which: Literal["starting", "ending"],
    timestamp: Timestamp | None,
    offsets_by_timestamp: Timestamps | None,
    offsets: _Offsets | None,
) -> list[OffsetsSpec]:
    """Return the points that options name.  The first one decides, as in Spark's own source, and the others do nothing.

    None: the option is not set.
    """
    points: list[OffsetsSpec] = []
    if timestamp is not None:
        points.append(OffsetsSpec(f"{which}Timestamp", ByTimestamp(in_milliseconds(timestamp))))
    if offsets_by_timestamp is not None:
        by_partition = _by_partition(offsets_by_timestamp, ByTimestamp)
        points.append(OffsetsSpec(f"{which}OffsetsByTimestamp", by_partition=by_partition))
    if isinstance(offsets, str):
        points.append(OffsetsSpec(f"{which}Offsets", EARLIEST if offsets == "earliest" else LATEST))
    elif offsets is not None:
        points.append(OffsetsSpec(f"{which}Offsets", by_partition=_by_partition(offsets, int)))
    return points


def overruled(points: Sequence[OffsetsSpec]) -> list[str]:
    """Return the options of the points that do nothing, each with the reason."""
    return [f"{point.option} ({points[0].option} comes before it)" for point in points[1:]]


def check_order(start: OffsetsSpec, end: OffsetsSpec) -> None:
    """Raise ValueError for a start after the end, as Spark's own source does.

    Only brokers can compare an offset with a time, or with the earliest and the latest offset.
    """
    pairs = {"": (start.default, end.default)}
    for p in sorted(start.by_partition.keys() | end.by_partition.keys()):
        points = start.by_partition.get(p, start.default), end.by_partition.get(p, end.default)
        pairs[f" for partition {p.split_id}"] = points
    for of_partition, points in pairs.items():
        match points:
            case (ByTimestamp(first), ByTimestamp(last)) | (int(first), int(last)) if first > last >= 0:
                raise ValueError(f"{start.option} is {first}{of_partition}, after {end.option}, which is {last}")


def _by_partition(
    by: Mapping[str, Mapping[int, int]], point: Callable[[int], OffsetPoint]
) -> dict[TopicPartition, OffsetPoint]:
    return {TopicPartition(topic, p): point(at) for topic, partitions in by.items() for p, at in partitions.items()}
