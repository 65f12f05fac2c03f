"""The points where a query starts and ends, from the options that may name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from tidegate.enumerators.kafka.offsets import ByTimestamp, OffsetPoint, OffsetsSpec
from tidegate.readers.kafka.client import EARLIEST, LATEST
from tidegate.readers.kafka.config import TopicPartition
from tidegate.sources.kafka.option_types import Offsets, Timestamp, Timestamps, in_milliseconds


def given_points(
    which: Literal["starting", "ending"],
    timestamp: Timestamp | None,
    offsets_by_timestamp: Timestamps | None,
    offsets: Offsets | None,
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
