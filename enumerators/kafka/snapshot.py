"""The snapshot of a Kafka enumerator: the cluster and the topics of its offsets, and the detected unit of times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from tidegate.enumerators.snapshots import Snapshot
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.event_time.units import TimeUnit


class TopicState(TypedDict):
    """What is known of a topic: its id, empty without one, and the leader epochs of its partitions in turn."""

    id: str
    epochs: list[int]


@dataclass(frozen=True, slots=True)
class KafkaSnapshot(Snapshot):
    """A snapshot of a Kafka enumerator.

    cluster: the id of the cluster to which the offsets belong.
    event_time_unit: the detected unit; None: none was detected, or the option ``eventTimeUnit`` names it.
    taken_over_ms: when Spark's built-in source planned the offset, which is taken over from its checkpoint; None: it is
        not, or the topics were compared with that time.
    """

    cluster: str | None = None
    event_time_unit: TimeUnit | None = None
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    taken_over_ms: int | None = None

    def with_detected_unit(self, event_times: RecordTimes) -> RecordTimes:
        """Return the event times with the unit of the snapshot, if the unit is a detected one."""
        return event_times.with_unit(self.event_time_unit) if event_times.unit_is_unknown else event_times
