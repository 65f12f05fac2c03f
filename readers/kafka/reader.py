"""The Kafka split reader: exact ranges of partitions as Arrow batches, the next fetch under way."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptDataError, DataLossError, PositionGoneError
from tidegate.readers.contract import ReadTask, SplitReader, TimedRows
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.cluster import UnknownPartitionError
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.joint_fetch import FIRST_GUESS_BYTES_PER_RECORD, MARGIN, JointFetch
from tidegate.readers.kafka.pool import idle_clients
from tidegate.readers.kafka.records.batches import corruption_named, visible_batches
from tidegate.readers.kafka.schema import EVENT_TIME, EVENT_TIME_FAULT, MICROSECONDS
from tidegate.readers.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tidegate.alignment.splits import SplitRange
    from tidegate.readers.kafka.client import KafkaClient
    from tidegate.readers.kafka.cluster import LeaderCall
    from tidegate.readers.kafka.fetch import FetchedPartition
    from tidegate.readers.kafka.records.batches import RecordBatch

__all__ = ["KafkaDetails", "KafkaSplitReader"]

log = logging.getLogger(__name__)


class KafkaDetails(NamedTuple):
    """The facts that a reader needs, and that a range does not tell.

    now_ms: the time by which the policy tells what is in the future, in ms since the epoch.
    topic_id: of the topic whose records are planned; None: of any that has its name.
    leader_epoch: the leader's when the range was planned: what was written later is not in it; None: unknown.
    """

    now_ms: int
    topic_id: UUID | None = None
    leader_epoch: int | None = None


class KafkaSplitReader(SplitReader):
    """Reads ranges of Kafka partitions; opens nothing before ``read``, and is picklable.

    include_headers: also deliver the column ``headers``.
    fail_on_data_loss: raise DataLossError when records of a range have been deleted; otherwise warn
        and go on with the first record that still exists.
    event_times: looks at every row where the policy refuses rows; None: no row has an event time.
    include_event_time: also deliver the columns ``event_time``, null where planning left the row out, and
        ``event_time_fault``, what is wrong with the row's own.
    max_batch_bytes: the greatest size of an Arrow batch, below 2 GiB; a larger record comes alone.

    The details of a task are KafkaDetails; without them the time is that of this machine.

    Whatever the size of a range, a task holds two fetch responses.  One has at most ``max_partition_fetch_bytes``.
    The other is of small ranges that are fetched together (``fetch_max_bytes``).  The task also holds one decompressed
    record batch and two Arrow batches: the one that is filled and the one that the consumer still has.  The next
    response waits in the kernel.  Only a record batch or a record that is larger than these sizes takes more, as much
    as itself.  Decompressed, a batch is at most ``max_decompressed_bytes``.
    """

    def __init__(
        self,
        config: KafkaConnectionConfig,
        *,
        include_headers: bool = False,
        fail_on_data_loss: bool = True,
        event_times: RecordTimes | None = None,
        include_event_time: bool = False,
        max_batch_bytes: int = 2 << 20,
    ) -> None:
        self._config = config
        self._include_headers = include_headers
        self._fail_on_data_loss = fail_on_data_loss
        self._event_times, self._include_event_time = event_times, include_event_time
        self._max_batch_bytes = max_batch_bytes

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the records of each range, one range after the other."""
        event_times = self._event_times
        wants_times = event_times is not None and (event_times.policy.refuses_rows or self._include_event_time)
        for batch, details in self._read(task):
            yield self._judged(batch, details.now_ms)[0] if wants_times else batch

    def read_timed(self, task: ReadTask) -> TimedRows:
        """Yield the records with their event times."""
        for batch, details in self._read(task):
            yield self._judged(batch, details.now_ms)

    def _read(self, task: ReadTask) -> Iterator[tuple[pa.RecordBatch, KafkaDetails]]:
        with idle_clients.lend(self._config) as client:
            all_details = task.details or (KafkaDetails(int(time.time() * 1000)),) * len(task.ranges)
            beginnings = JointFetch(client, task.ranges, [details.topic_id for details in all_details])
            for number, (each, details) in enumerate(zip(task.ranges, all_details, strict=True)):
                for batch in self._read_range(client, each, details, beginnings.take(number)):
                    yield batch, details

    def _judged(self, batch: pa.RecordBatch, now_ms: int) -> tuple[pa.RecordBatch, pa.Int64Array]:
        event_times = self._event_times or RecordTimes()
        times, faults = event_times.judge(batch, now_ms)
        if event_times.needs_headers and not self._include_headers:
            batch = batch.drop_columns(["headers"])
        if self._include_event_time:
            column = pc.multiply(times, MICROSECONDS).view(pa.timestamp("us", "UTC"))
            batch = batch.append_column(EVENT_TIME, column).append_column(EVENT_TIME_FAULT, faults)
        return batch, times

    def _read_range(
        self, client: KafkaClient, wanted: SplitRange, details: KafkaDetails, beginning: FetchedPartition | None
    ) -> Iterator[pa.RecordBatch]:
        from tidegate.readers.kafka.records.decoder import RecordDecoder

        partition = TopicPartition.of(wanted.split_id)
        headers = self._include_headers or (self._event_times is not None and self._event_times.needs_headers)
        decoder = RecordDecoder(partition, include_headers=headers, max_batch_bytes=self._max_batch_bytes)
        with corruption_named(wanted.split_id):
            try:
                for start, batch in self._batches(client, partition, wanted, details, beginning):
                    yield from decoder.add(batch, start, wanted.end)
            except (PositionGoneError, UnknownPartitionError) as error:
                self._lose(f"records {wanted.start} to {wanted.end} of {wanted.split_id} are wanted, but {error}")
        yield from decoder.flush()

    def _batches(
        self,
        client: KafkaClient,
        partition: TopicPartition,
        wanted: SplitRange,
        details: KafkaDetails,
        beginning: FetchedPartition | None,
    ) -> Iterator[tuple[int, RecordBatch]]:
        """Yield the visible batches that may hold records of the range, each with where its records count from.

        A batch is valid until the next one is asked for.
        """
        position = wanted.start
        bytes_per_record = FIRST_GUESS_BYTES_PER_RECORD
        deadline = None
        call = None

        def fetch() -> LeaderCall[FetchedPartition | None]:
            # What a response holds past the end of the range is sent for nothing.
            useful_bytes = int((wanted.end - position) * bytes_per_record)
            return client.fetch(partition, position, useful_bytes, details.topic_id)

        while position < wanted.end:
            fetched = beginning or (call or fetch()).result()[partition]
            beginning = call = None
            if fetched is None:
                left = self._first_left(client, partition, position, wanted.end)
                if left == position:
                    deadline = deadline or client.reading(partition, wanted.end)
                    deadline.pause(TransientError(f"the broker says that {position} is out of range"))
                position = left
                continue
            batches = client.split(fetched)
            if not batches:
                end = fetched.end(self._config.isolation_level)
                if end >= wanted.end and client.is_hole(partition, position, wanted.end, details.topic_id):
                    return
                # After a restart, the end may lag behind what it was when the range was planned.
                deadline = deadline or client.reading(partition, wanted.end)
                seen = f"the broker sends nothing from {position} on" if end >= wanted.end else f"it ends at {end}"
                deadline.pause(TransientError(seen))
                continue
            deadline = None
            first, position = position, batches[-1].last_offset + 1
            if position <= first:
                raise CorruptDataError(f"a fetch at offset {first} brought only earlier records")
            bytes_per_record = MARGIN * len(fetched.records) / (position - first)
            if position < wanted.end:
                # It is on its way while these batches are decoded and their rows are taken.
                call = fetch()
            for batch in visible_batches(batches, fetched.aborted):
                _check_epoch(batch, wanted, details)
                yield first, batch

    def _first_left(self, client: KafkaClient, partition: TopicPartition, position: int, end: int) -> int:
        """Return where to go on from a position that a broker says is out of range, at most ``end``."""
        log_start, log_end = client.log_range(partition)
        if log_start <= position <= log_end:
            return position  # a leader that was just elected may not know yet what there is
        self._lose(
            f"records {position} to {end} of {partition.split_id} are wanted, "
            f"but its log reaches from {log_start} to {log_end}"
        )
        return min(log_start, end) if log_start > position else end

    def _lose(self, sentence: str) -> None:
        """Raise DataLossError, or warn."""
        if self._fail_on_data_loss:
            raise DataLossError(f"{sentence} (failOnDataLoss)") from None
        log.warning("%s; what is gone is skipped", sentence)


def _check_epoch(batch: RecordBatch, wanted: SplitRange, details: KafkaDetails) -> None:
    """Raise PositionGoneError for a batch of a later leader, which took the place of one that was planned."""
    planned, found = details.leader_epoch, batch.leader_epoch
    if planned is None or found is None or batch.base_offset >= wanted.end:
        return
    if found > planned:
        raise PositionGoneError(
            f"from {batch.base_offset} on the log is of leader epoch {found}, and was planned under {planned}: "
            "a leader was elected that did not have them"
        )
