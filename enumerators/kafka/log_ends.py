"""What brokers say about the beginning and the end of each log, and the extents that follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.alignment.splits import Extent, SplitId
from tidegate.readers.kafka.client import ListedOffset
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.watch import WatchedEnd

Listed: TypeAlias = Mapping[TopicPartition, ListedOffset]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """One look at the logs.

    answers: the beginnings, the high watermarks and the ends, as brokers listed them.
    leader_epochs: the epoch of the last record before each end.
    watched: the ends about whose change the brokers tell.
    extents: settled if no transaction is open.
    """

    answers: tuple[Listed, Listed, Listed] | None = None
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    high: Mapping[SplitId, int] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    watched: Mapping[TopicPartition, WatchedEnd] = field(default_factory=dict)
    extents: Mapping[SplitId, Extent] = field(default_factory=dict)

    @classmethod
    def of(cls, splits: Collection[SplitId], begins: Listed, high: Listed, ends: Listed) -> LogEnds:
        """Return the look that answers about some splits give."""
        # Brokers answer in any order, and equal plans need the same one.
        named = [(split, p) for split in splits if (p := TopicPartition.of(split)) in ends]
        return cls(
            (begins, high, ends),
            {p: begins[p].offset for _, p in named},
            {split: high[p].offset for split, p in named},
            {p: ends[p].leader_epoch for _, p in named},
            {p: WatchedEnd(ends[p].offset, high[p].offset) for _, p in named},
            {
                split: Extent(
                    begins[p].offset,
                    ends[p].offset,
                    settled=ends[p].offset >= high[p].offset,
                    epoch=ends[p].leader_epoch,
                )
                for split, p in named
            },
        )
