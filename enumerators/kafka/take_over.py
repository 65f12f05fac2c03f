"""Recognizes topics that were recreated between a run of Spark's built-in source and the first run of tidegate.

A checkpoint of the built-in source holds offsets, and the time when it planned them, but neither ids of topics nor
leader epochs.  The records before an offset were in the log at that time.  If the first of them, and one of the last
two, were stamped later, they belong to another topic.  Two records are compared, because one may have a wrong time.

It cannot be told if the topic was recreated before that time, or if the new records carry old times.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.enumerators.contract import Divergence
from tidegate.readers.kafka.client import EARLIEST, LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import peek

__all__ = ["recreated_since"]

_CLOCK_SKEW_MS = 60_000
_LAST = 2  # the last offset is often that of a marker of a transaction


def recreated_since(
    planned_ms: int, positions: Mapping[TopicPartition, int], client: KafkaClient
) -> dict[TopicPartition, Divergence]:
    """Return the positions whose topic was recreated after they were planned.

    planned_ms: when the built-in source planned them.

    A position that is not in its log is left out, because that is data loss in any case.
    """
    begins, ends = (client.list_offsets(dict.fromkeys(positions, point)) for point in (EARLIEST, LATEST))
    read = {p: (begins[p][0], at) for p, at in positions.items() if begins[p][0] < at <= ends[p][0]}
    firsts = peek(client, {p: begin for p, (begin, _) in read.items()})
    lasts = peek(client, {p: max(begin, at - _LAST) for p, (begin, at) in read.items()})
    return {
        p: Divergence(f"the topic {p.topic!r} was deleted and recreated: its first records are too young", begin)
        for p, (begin, at) in read.items()
        if all(
            seen is not None and seen[0] < at and seen[1] > planned_ms + _CLOCK_SKEW_MS
            for seen in (firsts[p], lasts[p])
        )
    }
