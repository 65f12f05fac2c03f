"""Finds the first record of a Kafka record batch to align by."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.client import FEW_BYTES
from tidegate.readers.kafka.records.first_record import first_record

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.readers.kafka.config import TopicPartition
    from tidegate.readers.kafka.records.batches import RecordBatch

__all__ = ["HeadFinder"]

_LOG = logging.getLogger("tidegate.planner")
_EVERY_POSITION = 2**63 - 1
_MOST_BATCH_BYTES = 2 << 20
_SMOOTHING = 0.2  # weight of the newest batch in the mean size of a record
_MARGIN = 2  # allows for batches that are larger than the mean
_LEAST_BYTES = 4 << 10


class HeadFinder:
    """Finds the first record of a batch that the event-time policy does not leave out.

    Also learns the unit of the event times, whether the broker stamps a topic's records, and the size of a record.

    event_times: the event times of records, with their unit once it was detected.
    wall_clock: returns seconds since the epoch.
    """

    def __init__(self, event_times: RecordTimes, *, wall_clock: Callable[[], float] = time.time) -> None:
        self.event_times = event_times
        self._wall_clock = wall_clock
        self._appended: dict[str, bool] = {}
        self._bytes_per_record: dict[TopicPartition, float] = {}
        self._bytes_per_batch = float(FEW_BYTES)

    def __call__(self, partition: TopicPartition, batch: RecordBatch, position: int) -> tuple[int, int] | None:
        """Return offset and event time (ms) of the first record at or after ``position``; None: there is none.

        Raises CorruptDataError for a record that the policy refuses.
        """
        self._observe(partition, batch)
        if self.event_times.by_record_timestamp:
            return self._by_timestamp(partition, batch, position)
        return self._by_rows(partition, batch, position)

    def bytes_per_record(self, partition: TopicPartition) -> float:
        """Return the mean size of a record in a log, or in all logs if none of its records was seen."""
        sizes = self._bytes_per_record
        return sizes.get(partition) or (sum(sizes.values()) / len(sizes) if sizes else 1.0)

    @property
    def useful_bytes(self) -> int:
        """The bytes of a partition that a peek requests: one batch for record timestamps, else what a search uses."""
        if not self.event_times.by_record_timestamp:
            return FEW_BYTES
        return int(min(FEW_BYTES, max(_LEAST_BYTES, _MARGIN * self._bytes_per_batch)))

    def _observe(self, partition: TopicPartition, batch: RecordBatch) -> None:
        size = len(batch.data) / (batch.last_offset - batch.base_offset + 1)
        self._bytes_per_batch += _SMOOTHING * (len(batch.data) - self._bytes_per_batch)
        mean = self._bytes_per_record.get(partition, size)
        self._bytes_per_record[partition] = mean + _SMOOTHING * (size - mean)
        appended = batch.append_time_ms is not None
        if self._appended.setdefault(partition.topic, appended) != appended:
            self._appended[partition.topic] = appended
            if self.event_times.by_record_timestamp:
                _LOG.warning(
                    "topic %s changed to %s: event times before and after have different meanings",
                    partition.topic,
                    "LogAppendTime" if appended else "CreateTime",
                )

    def _by_timestamp(self, partition: TopicPartition, batch: RecordBatch, position: int) -> tuple[int, int] | None:
        now_ms = self._now_ms()
        policy = self.event_times.policy
        lowest_ms, highest_ms = policy.searched(now_ms)
        head = first_record(batch, position, lowest_ms=lowest_ms, highest_ms=highest_ms)
        if head is not None and not policy.accepts(head[1], now_ms):
            self.event_times.check_timestamp(partition.split_id, *head, now_ms)
        return head

    def _by_rows(self, partition: TopicPartition, batch: RecordBatch, position: int) -> tuple[int, int] | None:
        from tidegate.readers.kafka.records.decoder import RecordDecoder

        decoder = RecordDecoder(
            partition, include_headers=self.event_times.needs_headers, max_batch_bytes=_MOST_BATCH_BYTES
        )
        added = decoder.add(batch, position, _EVERY_POSITION)
        for rows in chain(added, decoder.flush()):
            self.event_times = self.event_times.with_unit(self.event_times.detect(rows))
            if (head := self._first_usable(rows)) is not None:
                return head
        return None

    def _first_usable(self, rows: pa.RecordBatch) -> tuple[int, int] | None:
        start, count = 0, 1
        while start < rows.num_rows:
            # The first row counts unless the policy leaves it out.
            some = rows.slice(start, count)
            for row, at_ms in enumerate(self.event_times.times(some, self._now_ms()).to_pylist()):
                if at_ms is not None:
                    return some.column("offset")[row].as_py(), at_ms
            start, count = start + count, 8 * count
        return None

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)
