"""Where reading of Kafka partitions starts and stops: the many ways to say it, and one resolution."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidegate.errors import OptionError
from tidegate.readers.kafka_client import EARLIEST, LATEST, KafkaClient
from tidegate.readers.kafka_config import TopicPartition

__all__ = ["ByTimestamp", "OffsetPoint", "OffsetsSpec", "resolve"]


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first record at or after a time in milliseconds since the epoch."""

    timestamp_ms: int


OffsetPoint: TypeAlias = int | ByTimestamp
"""An offset; EARLIEST or LATEST, as Kafka numbers them (-2, -1); or a time."""


@dataclass(frozen=True, slots=True)
class OffsetsSpec:
    """A point in every partition.

    option: the option that said so, for error messages.
    default: the point where ``by_partition`` is empty.
    by_partition: a point for every partition there is, as in Spark's JSON options.
    without_record: what a time past the last record means.
    """

    option: str
    default: OffsetPoint = EARLIEST
    by_partition: Mapping[TopicPartition, OffsetPoint] = field(default_factory=dict)
    without_record: Literal["error", "latest"] = "latest"

    def point(self, partition: TopicPartition) -> OffsetPoint:
        """Return the point of a partition.  Raises OptionError when the option leaves it out."""
        if not self.by_partition:
            return self.default
        if partition not in self.by_partition:
            raise OptionError(
                f"{self.option} says nothing of partition {partition.split_id}, but it must name every partition "
                "(-2 is its beginning, -1 its end)"
            )
        return self.by_partition[partition]


def resolve(
    spec: OffsetsSpec,
    partitions: Collection[TopicPartition],
    client: KafkaClient,
    known: Collection[TopicPartition] | None = None,
) -> dict[TopicPartition, int]:
    """Return the offset of each partition that ``spec`` stands for now.

    known: all partitions that are read, if ``partitions`` are only some of them.

    Raises OptionError when it names a partition that does not exist, an offset past the end, or,
    with ``without_record="error"``, a time past the last record.
    """
    known = partitions if known is None else known
    unknown = spec.by_partition.keys() - set(known)
    if unknown:
        raise OptionError(
            f"{spec.option} names partition {min(unknown).split_id}, which is not among those that are read: "
            f"{', '.join(sorted(p.split_id for p in known)[:10])}"
        )
    points = {p: spec.point(p) for p in partitions}
    asked = {p: at.timestamp_ms if isinstance(at, ByTimestamp) else min(at, LATEST) for p, at in points.items()}
    answers = client.list_offsets(asked)
    resolved: dict[TopicPartition, int] = {}
    for partition, point in points.items():
        answer = answers[partition][0]
        if not isinstance(point, ByTimestamp):
            resolved[partition] = _existing(spec, partition, point, answer) if point >= 0 else answer
        elif answer >= 0:
            resolved[partition] = answer
        elif spec.without_record == "error":
            raise OptionError(
                f"{spec.option} is {point.timestamp_ms}, but partition {partition.split_id} holds no record so late; "
                "set startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        else:
            resolved[partition] = client.list_offsets({partition: LATEST})[partition][0]
    return resolved


def _existing(spec: OffsetsSpec, partition: TopicPartition, offset: int, end: int) -> int:
    if offset > end:
        raise OptionError(f"{spec.option} is {offset} for partition {partition.split_id}, which ends at {end}")
    return offset
