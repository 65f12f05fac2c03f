"""Finds the first record of a Kafka record batch to align by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Head, Horizon, Positions
from tidegate.errors import TidegateError
from tidegate.readers.event_time.policy import int64_times
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.batches import RecordBatch
from tidegate.readers.kafka.client import FEW_BYTES
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import first_record

_EVERY_POSITION = 2**63 - 1
_MOST_BATCH_BYTES = 2 << 20
_SMOOTHING = 0.2  # weight of the newest batch in the mean size of a record
_MARGIN = 2  # allows for batches that are larger than the mean
_LEAST_BYTES = 4 << 10


class HeadFinder:
    """Finds the first record of a batch that the event-time policy does not leave out.

    Also learns the unit of the event times, and the size of a record.

    event_times: the event times of records, with their unit once it was detected.
    """

    def __init__(self, event_times: RecordTimes) -> None:
        self.event_times = event_times
        self._bytes_per_record: dict[TopicPartition, float] = {}
        self._bytes_per_batch = float(FEW_BYTES)

    def __call__(self, horizon: Horizon, partition: TopicPartition, batch: RecordBatch, position: int) -> Head | None:
        """Return the first record at or after ``position``.

        Raises CorruptDataError for a record that the policy refuses.
        """
        self._observe(partition, batch)
        if self.event_times.by_record_timestamp:
            return self._by_timestamp(horizon, partition, batch, position)
        return self.first_of(self._rows(partition, batch, position), horizon)

    def first_of(self, batches: Iterable[pa.RecordBatch], horizon: Horizon) -> Head | None:
        """Return the first of some decoded records that counts.

        Raises CorruptDataError for a record that the policy refuses.
        """
        found = (self._first_usable(rows, horizon) for rows in self._with_unit(batches))
        return next((head for head in found if head is not None), None)

    def first_held(
        self, horizon: Horizon, ends: Positions, partition: TopicPartition, batch: RecordBatch, position: int
    ) -> Head | None:
        """Return the first record at or past the horizon; it means nothing past ``ends``."""
        end = ends[partition.split_id]
        if self.event_times.by_record_timestamp:
            head = first_record(batch, position, lowest_ms=horizon.at_ms)
        else:
            head = self.first_held_of(self._rows(partition, batch, position), horizon)
        return Head(end, horizon.at_ms) if head is None and batch.last_offset + 1 >= end else head

    def first_held_of(self, batches: Iterable[pa.RecordBatch], horizon: Horizon) -> Head | None:
        """Return the first of some decoded records at or past the horizon."""
        found = (self._first_held(rows, horizon) for rows in self._with_unit(batches))
        return next((head for head in found if head is not None), None)

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

    def _by_timestamp(
        self, horizon: Horizon, partition: TopicPartition, batch: RecordBatch, position: int
    ) -> Head | None:
        policy = self.event_times.policy
        lowest_ms, searched = policy.searched(horizon)
        head = first_record(batch, position, lowest_ms=lowest_ms, horizon=searched)
        if head is not None and not policy.accepts(head[1], horizon):
            self.event_times.check_timestamp(partition.split_id, *head, horizon)
        return head

    def _rows(self, partition: TopicPartition, batch: RecordBatch, position: int) -> Iterator[pa.RecordBatch]:
        from tidegate.readers.kafka.decoder import RecordDecoder

        decoder = RecordDecoder(
            partition, include_headers=self.event_times.needs_headers, max_batch_bytes=_MOST_BATCH_BYTES
        )
        yield from decoder.add(batch, position, _EVERY_POSITION)
        yield from decoder.flush()

    def _with_unit(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            self.event_times = self.event_times.with_unit(self.event_times.detect(rows))
            yield rows

    def _first_held(self, rows: pa.RecordBatch, horizon: Horizon) -> Head | None:
        times = int64_times(self.event_times.judge(rows, horizon).times)
        row = int(np.argmax(times >= horizon.at_ms))
        return Head(rows.column("offset")[row].as_py(), int(times[row])) if times[row] >= horizon.at_ms else None

    def _first_usable(self, rows: pa.RecordBatch, horizon: Horizon) -> Head | None:
        start, count = 0, 1
        while start < rows.num_rows:
            # The first row counts unless the policy leaves it out.
            some = rows.slice(start, count)
            try:
                times = self.event_times.judge(some, horizon).times
            except TidegateError:
                if some.num_rows == 1:
                    raise
                count = 1  # a record before the one that ends the query may count
                continue
            for row, at_ms in enumerate(times.to_pylist()):
                if at_ms is not None:
                    return Head(some.column("offset")[row].as_py(), at_ms)
            start, count = start + count, 8 * count
        return None
