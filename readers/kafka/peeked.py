"""Remembers the record batches of peeks, and the positions where peeks found nothing."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.records.batches import RecordBatch

MOST_BYTES = 64 << 20


class PeekedBatches:
    """Keeps record batches, so that a search close to a record needs no further requests.

    A peek asks for one record and gets some 64 KiB of them.  The log may delete them meanwhile, so forget them before
    every plan.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: dict[TopicPartition, list[RecordBatch]] = {}  # by their offsets
        self._nothing_from: dict[TopicPartition, int] = {}

    def keep(self, partition: TopicPartition, batch: RecordBatch) -> None:
        """Keep a copy of a visible batch: its bytes are a view, which would keep the whole response."""
        if self._bytes + len(batch.data) > self._most_bytes:
            return
        batches = self._batches.setdefault(partition, [])
        place = bisect_right(batches, batch.base_offset, key=_base_offset)
        if place and batches[place - 1].base_offset == batch.base_offset:
            return
        self._bytes += len(batch.data)
        data = batch.data.copy()
        data.flags.writeable = False
        batches.insert(place, replace(batch, data=data))

    def at(self, partition: TopicPartition, position: int) -> RecordBatch | None:
        """Return the batch that contains a position; None: it is not kept."""
        batches = self._batches.get(partition, [])
        place = bisect_right(batches, position, key=_base_offset)
        return batches[place - 1] if place and position <= batches[place - 1].last_offset else None

    def keep_nothing(self, partition: TopicPartition, position: int) -> None:
        """Remember that a search from a position found nothing up to the end."""
        self._nothing_from[partition] = min(position, self._nothing_from.get(partition, position))

    def is_nothing(self, partition: TopicPartition, position: int) -> bool:
        """Return whether a search from a position is known to find nothing."""
        return position >= self._nothing_from.get(partition, position + 1)

    def forget(self) -> None:
        """Drop all."""
        self._batches.clear()
        self._nothing_from.clear()
        self._bytes = 0


def _base_offset(batch: RecordBatch) -> int:
    return batch.base_offset
