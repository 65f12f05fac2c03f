"""Offsets and progress in the form of Spark's built-in Kafka source, which dashboards and alerts know.

{"orders": {"0": 23, "1": 7}}
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.alignment.splits import Positions
from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.offset import BuiltInOffset
from tidegate.readers.kafka.config import TopicPartition

_MOST_PARTITIONS = 500  # Spark keeps each progress a hundred times


def positions_in(offset: BuiltInOffset) -> Positions:
    """Return the positions that an offset of the built-in source holds."""
    return {
        TopicPartition(topic, p).split_id: at
        for topic, by_partition in offset.items()
        for p, at in by_partition.items()
    }


def offset_by_topic(positions: Positions) -> BuiltInOffset:
    """Return the offset of the built-in source that holds positions, in its order."""
    offset: dict[str, dict[int, int]] = {}
    for partition, at in sorted((TopicPartition.of(split), at) for split, at in positions.items()):
        offset.setdefault(partition.topic, {})[partition.partition] = at
    return offset


def progress_by_topic(positions: Positions, ends: Positions) -> Json:
    """Return what the built-in source tells as ``latestOffset`` and ``metrics``.

    ends: the ends up to which the run can read now.

    The ends are left out if there are more than 500.
    """
    if not ends:
        return {}
    behind = [end - positions.get(split, end) for split, end in ends.items()]
    metrics: Mapping[str, float] = {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }
    latest = offset_by_topic(ends) if len(ends) <= _MOST_PARTITIONS else {}
    return {**{topic: {str(p): end for p, end in at.items()} for topic, at in latest.items()}, "metrics": metrics}
