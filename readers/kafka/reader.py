"""Reads exact ranges of Kafka partitions as Arrow batches, while the next fetch is under way.

Small ranges of many partitions are fetched by one request for each broker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Horizon, SplitRange
from tidegate.errors import (
    CorruptDataError,
    DataLossError,
    ObjectGoneError,
    PositionGoneError,
    TransientError,
    UnknownPartitionError,
)
from tidegate.readers.archive.directory import ArchivedPart
from tidegate.readers.arrow.arrays import are_null, booleans, int64_values, integers, merged
from tidegate.readers.bad_record_files import BadRecordFiles
from tidegate.readers.contract import ReadTask, SplitReader, TimedBatch, TimedRows
from tidegate.readers.event_time.records import JudgedRecords, RecordTimes
from tidegate.readers.kafka.batches import RecordBatch, corruption_named, holds_a_batch, visible_batches
from tidegate.readers.kafka.client import FEW_BYTES, KafkaClient, idle_clients
from tidegate.readers.kafka.cluster import LeaderCall
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.fetch import FetchedPartition
from tidegate.readers.kafka.rows import (
    EVENT_TIME,
    EVENT_TIME_FAULT,
    MICROSECONDS,
    BadRecordFile,
    arrow_schema,
    lines_of,
)
from tidegate.readers.kafka.typed import DecodedRows, TypedRecords

if TYPE_CHECKING:
    from tidegate.readers.archive.archive import Archive

FIRST_GUESS_BYTES_PER_RECORD = 1000.0
MARGIN = 1.1
_FEW = 1 / 3  # of the records: if fewer are selected, it pays to decode the columns of the condition first
_SMALL = 1 / 4  # of the size of a fetch; larger ranges are fetched one by one


class JointFetch:
    """Fetches the beginnings of a task's ranges; small ranges are fetched together with the next ones.

    It only saves requests: for other ranges the reader sends its own.  It holds the bytes of one fetch
    (``fetch_max_bytes``).
    """

    def __init__(self, client: KafkaClient, ranges: Sequence[SplitRange], topic_ids: Sequence[UUID | None]) -> None:
        self._client = client
        self._ranges = [(TopicPartition.of(part.split_id), part.start, part.end) for part in ranges]
        self._topic_ids = topic_ids
        self._bytes_per_record = FIRST_GUESS_BYTES_PER_RECORD
        self._asked_up_to = 0
        self._fetched: dict[TopicPartition, FetchedPartition] = {}

    def take(self, number: int) -> FetchedPartition | None:
        """Return the fetched beginning of a range; None: it was not fetched.  Called for each range in turn."""
        if number >= self._asked_up_to:
            self._ask_from(number)
        return self._fetched.pop(self._ranges[number][0], None)

    def _ask_from(self, number: int) -> None:
        """Fetch the range and the small ones after it, as many as fit into one response."""
        all_bytes = self._client.config.fetch_max_bytes
        room = min(self._client.config.max_partition_fetch_bytes, all_bytes)
        positions: dict[TopicPartition, int] = {}
        topic_ids: dict[str, UUID | None] = {}
        most, left, records = 0.0, float(room), 0
        self._asked_up_to, self._fetched = number + 1, {}
        for place in range(number, len(self._ranges)):
            partition, start, end = self._ranges[place]
            if start >= end:  # all of it is in the archive
                continue
            needed = (end - start) * self._bytes_per_record
            if needed > min(left, room * _SMALL) or partition in positions:
                break
            # Each broker respects all_bytes, but knows nothing about the other brokers.
            if (len(positions) + 1) * max(most, needed, FEW_BYTES) > all_bytes:
                break
            positions[partition], topic_ids[partition.topic] = start, self._topic_ids[place]
            most, left, records = max(most, needed), left - needed, records + end - start
            self._asked_up_to = place + 1
        if len(positions) < 2:
            return
        try:
            fetched, _ = self._client.fetch_parts(
                positions, lambda _, part: part, topic_ids, max(FEW_BYTES, int(most))
            ).reached()
        except PositionGoneError:  # of one topic, and the others know nothing of it
            return
        # A response may be too small for all, and have less than a batch of some.
        self._fetched = {p: part for p, part in fetched.items() if part is not None and holds_a_batch(part.records)}
        if size := sum(len(part.records) for part in self._fetched.values()):
            self._bytes_per_record = MARGIN * size / records


log = logging.getLogger(__name__)


class KafkaDetails(NamedTuple):
    """The facts that a reader needs in addition to a range.

    topic_id: the id of the topic whose records are planned; None: any topic of that name.
    leader_epoch: the leader's epoch when the range was planned; the range holds no records of later epochs; None:
        unknown.
    archived: the parts of the range that are in the archive, in order.
    kafka_from: the offset from which on the range is read from Kafka.
    """

    topic_id: UUID | None = None
    leader_epoch: int | None = None
    archived: tuple[ArchivedPart, ...] = ()
    kafka_from: int = 0


class KafkaSplitReader(SplitReader):
    """Reads ranges of Kafka partitions; opens nothing before ``read``, and is picklable.

    fail_on_data_loss: raise DataLossError when records of a range have been deleted; otherwise warn and continue with
        the first record that still exists.
    event_times: the assigner and the policy of event times; None: no row has an event time.
    bad_records: the place for records that the policy sets aside; None: they are left out, and written nowhere.
    include_event_time: also deliver the columns ``event_time``, null where planning left the row out, and
        ``event_time_fault``, the fault of the row's own time.
    max_batch_bytes: the greatest size of an Arrow batch, below 2 GiB; a larger record comes alone.
    typed: decodes values and keys, selects rows and columns; None: rows are as Kafka has them.
    archive: the place of records that the details name as archived.

    The details of a task are KafkaDetails.

    Whatever the size of a range, a task holds two fetch responses.  One has at most ``max_partition_fetch_bytes``.  The
    other holds small ranges that are fetched together (``fetch_max_bytes``).  The task also holds one decompressed
    record batch and two Arrow batches: one is being filled, and the consumer still has the other.  The next response
    waits in the kernel.  Only a record batch or a record that is larger than these sizes takes more, as much as itself.
    Decompressed, a batch is at most ``max_decompressed_bytes``.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        config: KafkaConnectionConfig,
        *,
        include_headers: bool = False,
        fail_on_data_loss: bool = True,
        event_times: RecordTimes | None = None,
        bad_records: BadRecordFile | None = None,
        include_event_time: bool = False,
        max_batch_bytes: int = 2 << 20,
        typed: TypedRecords | None = None,
        archive: Archive | None = None,
    ) -> None:
        self._config = config
        self._include_headers = include_headers
        self._fail_on_data_loss = fail_on_data_loss
        self._event_times, self._include_event_time = event_times, include_event_time
        self._max_batch_bytes = max_batch_bytes
        self._typed, self._archive = typed, archive
        self._place = bad_records
        self._set_aside: dict[SplitRange, int] = {}

    @property
    def bad_records(self) -> Mapping[SplitRange, int]:
        """How many records of each range were set aside."""
        return self._set_aside

    def without_writing(self) -> KafkaSplitReader:
        """Return a reader that does not write bad records."""
        reader = copy(self)
        reader._place, reader._set_aside = None, {}  # noqa: SLF001 - its own class
        return reader

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the records of each range, one range after the other."""
        event_times = self._event_times
        wants_times = event_times is not None and (event_times.policy.refuses_rows or self._include_event_time)
        if wants_times or self._typed is not None:
            batches = self._timed(task, judges=wants_times, sifts=True)
            rows = (delivered for timed in batches if (delivered := timed.delivered).num_rows)
            yield from rows if self._typed is None or self._typed.where is None else merged(rows)
        else:
            yield from (batch for _, batch, _ in self._read(task, include_headers=self._include_headers))

    def read_timed(self, task: ReadTask) -> TimedRows:
        """Yield the records with their event times; a mark of a generator may be a bad record."""
        yield from self._timed(task, judges=True, sifts=False)

    def _timed(self, task: ReadTask, *, judges: bool, sifts: bool) -> TimedRows:
        horizon, sifts_next = task.horizon if judges else None, sifts
        batches = self._read(task, include_headers=self._judges_by_headers)
        for number, of_range in groupby(batches, lambda read: read[0]):
            wanted, aside = task.ranges[number], None
            self._set_aside[wanted] = 0
            for _, batch, details in of_range:
                if self._place is not None and aside is None:
                    aside = self._place.of_range(self._config, wanted, details.topic_id)
                left = 0
                for decoded in self._decoded(batch, horizon, sifts=sifts_next):
                    timed = self._judged(number, decoded, horizon, wanted, aside)
                    left += timed.left
                    yield timed
                sifts_next = sifts and left < _FEW * batch.num_rows
            if aside is not None:
                aside.flush()

    def _decoded(self, batch: pa.RecordBatch, horizon: Horizon | None, *, sifts: bool) -> Iterator[DecodedRows]:
        """Yield the records of a batch.

        sifts: do without those that ``where`` leaves out, once the columns are decoded that this takes.
        """
        if self._typed is None:
            yield DecodedRows(batch, batch, {})
            return
        if sifts and self._typed.sifts:
            wanted = self._typed.wanted(batch, lambda rows: self._times(rows, horizon).set_aside)
            batch = batch.filter(booleans(wanted))
        if batch.num_rows:
            yield from self._typed.decoded(batch)

    def _read(self, task: ReadTask, *, include_headers: bool) -> Iterator[tuple[int, pa.RecordBatch, KafkaDetails]]:
        with idle_clients.lend(self._config) as client:
            all_details = task.details or (KafkaDetails(),) * len(task.ranges)
            in_kafka = [
                replace(wanted, start=max(wanted.start, details.kafka_from))
                for wanted, details in zip(task.ranges, all_details, strict=True)
            ]
            beginnings = JointFetch(client, in_kafka, [details.topic_id for details in all_details])
            for number, (wanted, details) in enumerate(zip(in_kafka, all_details, strict=True)):
                for batch in self._archived(client, wanted, details, include_headers=include_headers):
                    yield number, batch, details
                if wanted.start < wanted.end:
                    beginning = beginnings.take(number)
                    for batch in self._read_range(client, wanted, details, beginning, include_headers=include_headers):
                        yield number, batch, details

    def _archived(
        self,
        client: KafkaClient,
        wanted: SplitRange,
        details: KafkaDetails,
        *,
        include_headers: bool,
        is_newest: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        if self._archive is None:
            return
        schema = arrow_schema(include_headers=include_headers)
        for part in details.archived:
            at = part.start
            try:
                for batch in self._archive.read(part, schema):
                    yield batch
                    at = int(int64_values(batch.column("offset"))[-1]) + 1
            except ObjectGoneError as error:
                partition = TopicPartition.of(wanted.split_id)
                newer, held = ([], at) if is_newest else self._archive.newest_parts(partition, at, part.end)
                log.warning("%s; the records from %s on are read from Kafka, if it still has them", error, held)
                again = details._replace(archived=tuple(newer))
                yield from self._archived(client, wanted, again, include_headers=include_headers, is_newest=True)
                left = replace(wanted, start=held, end=part.end)
                yield from self._read_range(client, left, details, None, include_headers=include_headers)

    def _judged(
        self,
        number: int,
        decoded: DecodedRows,
        horizon: Horizon | None,
        wanted: SplitRange,
        aside: BadRecordFiles | None,
    ) -> TimedBatch:
        raw, batch, bad = decoded
        judged = self._times(decoded, horizon)
        untimed = {row: f"the record {why}" for row, why in judged.set_aside.items()}
        refused = dict(sorted({**untimed, **bad}.items()))
        if refused:
            self._set_aside[wanted] += len(refused)
            if aside is not None:
                for line in lines_of(raw.take(pa.array([*refused], pa.int64())), [*refused.values()]):
                    aside.add(line)
        if self._judges_by_headers and not self._include_headers:
            batch = batch.drop_columns(["headers"])
        if self._include_event_time:
            times = judged.times
            column = integers(int64_values(times) * MICROSECONDS, pa.timestamp("us", "UTC"), are_null(times))
            batch = batch.append_column(EVENT_TIME, column).append_column(EVENT_TIME_FAULT, judged.faults)
        left_out = np.zeros(batch.num_rows, np.bool_)
        if self._typed is not None:
            left_out = ~self._typed.selected(batch)
            batch = self._typed.delivered(batch)
        left_out[[*refused]] = True
        return TimedBatch(number, batch, judged.times, booleans(left_out) if left_out.any() else None)

    def _times(self, decoded: DecodedRows, horizon: Horizon | None) -> JudgedRecords:
        raw, rows, _ = decoded
        if horizon is None:
            return JudgedRecords(pa.nulls(len(raw), pa.int64()), pa.nulls(len(raw), pa.string()))
        event_times = self._event_times or RecordTimes()
        return event_times.judge(rows if event_times.by_column else raw, horizon)

    @property
    def _judges_by_headers(self) -> bool:
        """Whether headers are decoded together with event times; a bad record is written with its headers."""
        times_need_them = self._event_times is not None and self._event_times.needs_headers
        typed_needs_them = self._typed is not None and self._typed.needs_headers
        return self._include_headers or times_need_them or typed_needs_them or self._place is not None

    def _read_range(
        self,
        client: KafkaClient,
        wanted: SplitRange,
        details: KafkaDetails,
        beginning: FetchedPartition | None,
        *,
        include_headers: bool,
    ) -> Iterator[pa.RecordBatch]:
        from tidegate.readers.kafka.decoder import RecordDecoder

        partition = TopicPartition.of(wanted.split_id)
        decoder = RecordDecoder(partition, include_headers=include_headers, max_batch_bytes=self._max_batch_bytes)
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
        """Yield the visible batches that may hold records of the range, each with its first position that counts."""
        position = wanted.start
        bytes_per_record = FIRST_GUESS_BYTES_PER_RECORD
        deadline = None
        call = None

        def fetch() -> LeaderCall[FetchedPartition | None]:
            # Records past the end of the range would be sent for nothing.
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
                # After a restart, the end may lag behind the end that the plan used.
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
                # The next fetch is on its way while these batches are decoded and consumed.
                call = fetch()
            for batch in visible_batches(batches, fetched.aborted):
                _check_epoch(batch, wanted, details)
                yield first, batch

    def _first_left(self, client: KafkaClient, partition: TopicPartition, position: int, end: int) -> int:
        """Return the position to continue from, at most ``end``, after a broker called a position out of range."""
        log_start, log_end = client.log_range(partition)
        if log_start <= position <= log_end:
            return position  # a new leader may not know its log yet
        left = min(log_start, end) if log_start > position else end
        self._lose(
            f"records {position} to {end} of {partition.split_id} are wanted, "
            f"but its log reaches from {log_start} to {log_end}"
        )
        return left

    def _lose(self, sentence: str) -> None:
        """Raise DataLossError, or warn."""
        if self._fail_on_data_loss:
            raise DataLossError(f"{sentence} (failOnDataLoss)") from None
        log.warning("%s; the missing records are skipped", sentence)


def _check_epoch(batch: RecordBatch, wanted: SplitRange, details: KafkaDetails) -> None:
    """Raise PositionGoneError for a batch of a later leader, which replaced the planned batch."""
    planned, actual = details.leader_epoch, batch.leader_epoch
    if planned is None or actual is None or batch.base_offset >= wanted.end:
        return
    if actual > planned:
        raise PositionGoneError(
            f"from {batch.base_offset} on the log is of leader epoch {actual}, and was planned under {planned}: "
            "a leader was elected that did not have them"
        )
