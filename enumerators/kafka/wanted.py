"""The records that a batch query asks for, as far as planning can skip other records without reading them.

Topics and partitions are known by name, and offsets are positions.  For timestamps there is only a lower limit: Kafka's
index gives the first record at or after a time.  All matching records are at or after it, but so may be older ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from tidegate.alignment.splits import SplitRange
from tidegate.readers.kafka.config import TopicPartition

__all__ = ["Comparison", "PartitionFilter", "WantedRecords"]

Comparison: TypeAlias = Literal["eq", "lt", "le", "gt", "ge", "in"]

_LAST_OFFSET = 2**63 - 1
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "in": lambda value, values: value in values,
}


class PartitionFilter(NamedTuple):
    """A filter on the name of a partition.

    column: the column to compare with ``value``; "in" compares with each of several values.
    is_negated: the partitions that do not match pass.
    """

    column: Literal["topic", "partition"]
    comparison: Comparison
    value: Any
    is_negated: bool = False

    def passes(self, partition: TopicPartition) -> bool:
        """Return whether a partition passes."""
        return _COMPARISONS[self.comparison](getattr(partition, self.column), self.value) != self.is_negated


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """The records of the partitions that pass all filters, in a range of offsets, from a time on.

    begin, end: the offsets, ``end`` exclusive.
    from_ms: the lowest timestamp; None: any.
    """

    filters: tuple[PartitionFilter, ...] = ()
    begin: int = 0
    end: int = _LAST_OFFSET
    from_ms: int | None = None

    def with_filter(self, partition_filter: PartitionFilter) -> WantedRecords:
        """Return these records with one more filter."""
        return replace(self, filters=(*self.filters, partition_filter))

    def between(self, begin: int = 0, end: int = _LAST_OFFSET) -> WantedRecords:
        """Return these records within a range of offsets."""
        return replace(self, begin=max(self.begin, begin), end=min(self.end, end))

    def since(self, from_ms: int) -> WantedRecords:
        """Return these records from a time on."""
        return replace(self, from_ms=from_ms if self.from_ms is None else max(self.from_ms, from_ms))

    def ranges(
        self,
        ranges: Collection[SplitRange],
        first_since: Callable[[Collection[TopicPartition], int], Mapping[TopicPartition, int | None]],
    ) -> list[SplitRange]:
        """Return the parts of ranges that may hold wanted records.

        first_since: returns the first offset at or after a time for each partition; None: there is none.  Called at
            most once, for the remaining partitions.
        """
        wanted: dict[TopicPartition, SplitRange] = {}
        for whole in ranges:
            partition = TopicPartition.of(whole.split_id)
            part = replace(whole, start=max(whole.start, self.begin), end=min(whole.end, self.end))
            if part.start < part.end and all(filter_.passes(partition) for filter_ in self.filters):
                wanted[partition] = part
        if self.from_ms is None or not wanted:
            return [*wanted.values()]
        firsts = first_since(wanted.keys(), self.from_ms)
        return [
            later
            for partition, part in wanted.items()
            if (first := firsts[partition]) is not None
            and (later := replace(part, start=max(part.start, first))).start < later.end
        ]
