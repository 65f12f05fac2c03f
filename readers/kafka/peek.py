"""Peeks at single records of many partitions: a few requests at a time to each leader, as many as it needs.

A response holds a few MiB, so a request asks only for as many partitions as one response has room for.  A broker sends
nothing from a partition whose first batch exceeds the requested bytes, unless the partition comes first in its request.
Such partitions are requested again with more bytes, and finally alone.  What a peek has brought is kept for the plan.

Within a batch, compiled loops find a record faster, but take a third of a second to load, and a query's first plan
would wait for them.  So Python does the work until it has spent about as much time, which most queries never do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from tidegate.alignment.splits import Head, Horizon
from tidegate.errors import PositionGoneError, TransientError
from tidegate.kafka_private import decode_varint
from tidegate.readers.event_time.units import LARGEST_MS
from tidegate.readers.kafka.batches import RecordBatch, corruption_named, visible_batches
from tidegate.readers.kafka.client import FEW_BYTES, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import FetchedPartition
from tidegate.readers.retry import Deadline

EARLIEST_MS = -(2**62)
_steps_left = 1_000_000  # records for which Python takes about as long as the loops take to load


def first_record(
    batch: RecordBatch, position: int, *, lowest_ms: int = EARLIEST_MS, horizon: Horizon | None = None
) -> Head | None:
    """Return position and timestamp of the first record of a batch at or after ``position``, if any.

    Records with a timestamp below ``lowest_ms`` are skipped, and those at or past the horizon, which it notes.  Raises
    CorruptDataError.
    """
    if batch.last_offset < position:
        return None
    horizon = horizon or Horizon()
    records = batch.records()
    is_sure, record = _walk(batch, records, position, lowest_ms, horizon)
    if is_sure:
        return record

    from tidegate.readers.kafka.decoder import find_record

    return find_record(batch, records, position, lowest_ms, horizon)


def _walk(
    batch: RecordBatch, records: npt.NDArray[np.uint8], position: int, lowest_ms: int, horizon: Horizon
) -> tuple[bool, Head | None]:
    """Return whether the answer is sure, and the record, if any; what is doubtful on the way makes it unsure."""
    global _steps_left  # noqa: PLW0603 - the loops are loaded once per process
    data = records.data
    end, seen, last = 0, 0, batch.base_offset - 1
    base_ms = batch.base_timestamp_ms if batch.append_time_ms is None else batch.append_time_ms
    while _steps_left > 0 and end < len(data):
        _steps_left -= 1
        try:
            length, start = decode_varint(data, end)
            timestamp_delta, at = decode_varint(data, start + 1)
            offset_delta, at = decode_varint(data, at)
        except (IndexError, ValueError):
            return False, None
        end = start + length
        offset = batch.base_offset + offset_delta
        timestamp_ms = base_ms + (timestamp_delta if batch.append_time_ms is None else 0)
        is_sound = (
            at <= end <= len(data)
            and last < offset <= batch.last_offset
            and max(abs(base_ms), abs(timestamp_delta), abs(timestamp_ms)) <= LARGEST_MS
        )
        if not is_sound:
            return False, None
        if offset >= position and timestamp_ms >= horizon.at_ms:
            horizon.note(timestamp_ms)
        elif offset >= position and timestamp_ms >= lowest_ms:
            return True, Head(offset, timestamp_ms)
        last = offset
        seen += 1
    return end == len(data) and seen == batch.count, None


MOST_BYTES = 64 << 20


class PeekCache:
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


FindHead: TypeAlias = Callable[[TopicPartition, RecordBatch, int], Head | None]


class _Look(NamedTuple):
    """The result of one look: the head, or the next position.  Starved: nothing came, though there may be records."""

    position: int
    head: Head | None = None
    more: bool = False
    is_starved: bool = False
    end: int = 0


def peek(
    client: KafkaClient,
    positions: Mapping[TopicPartition, int],
    find: FindHead | None = None,
    cache: PeekCache | None = None,
    topic_ids: Mapping[str, UUID | None] | None = None,
    useful_bytes: int = FEW_BYTES,
) -> dict[TopicPartition, Head | None]:
    """Return the first visible data record at or after each position.

    find: returns the first record of a batch that counts; the default takes every record, by its timestamp.
    cache: batches that need no request; new batches are kept there.
    useful_bytes: how much to ask of each partition, which is about what comes.  More is asked where no whole batch
        comes.

    None: no record up to the end, which is the last stable offset under ``read_committed``.  The search
    continues behind these bytes if they hold only control records, aborted transactions or holes.  Raises
    PositionGoneError if a position is not within its log, or another topic has taken its topic's place.  Raises
    DeadlineError if the broker keeps sending nothing where there may be records.
    """
    cache = PeekCache(0) if cache is None else cache
    return _Peek(client, find or _first_by_timestamp, cache, topic_ids or {}, useful_bytes).heads(positions)


@dataclass
class _Peek:
    """One peek at many partitions.

    bytes: how much to ask of each.
    largest: the bytes of the largest batch that came.
    """

    client: KafkaClient
    find: FindHead
    cache: PeekCache
    topic_ids: Mapping[str, UUID | None]
    bytes: int
    largest: int = 0
    deadlines: dict[TopicPartition, Deadline] = field(default_factory=dict)

    def heads(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Head | None]:
        """Return the first record that counts at or after each position."""
        heads = self._known(positions)
        left = {partition: position for partition, position in positions.items() if partition not in heads}
        alone: set[TopicPartition] = set()
        while left:
            looks = self._look({p: at for p, at in left.items() if p not in alone})
            looks |= self._look({p: left[p] for p in alone}, alone=True)
            starved = {partition for partition, look in looks.items() if look.is_starved}
            again = {p for p in starved & alone if not self._ends_in_a_hole(p, looks[p])}
            for partition, look in looks.items():
                is_over = not look.more or self.cache.is_nothing(partition, look.position)
                if partition not in again and (is_over or partition in starved & alone):
                    del left[partition]
                    heads[partition] = look.head
                    if look.head is None:
                        self.cache.keep_nothing(partition, positions[partition])
                else:
                    left[partition] = look.position
            alone = again if self._asks_for_more(starved - alone) else again | (starved & left.keys())
        return heads

    def _known(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Head | None]:
        heads: dict[TopicPartition, Head | None] = {}
        for partition, position in positions.items():
            batch = self.cache.at(partition, position)
            with corruption_named(partition.split_id):
                if batch is not None and (head := self.find(partition, batch, position)) is not None:
                    heads[partition] = head
            if partition not in heads and self.cache.is_nothing(partition, position):
                heads[partition] = None
        return heads

    def _asks_for_more(self, starved: Iterable[TopicPartition]) -> bool:
        """Request more bytes from now on, if that may help partitions that got none."""
        larger = next((size for size in (FEW_BYTES, 2 * self.largest) if size > self.bytes), None)
        if larger is None or not starved:
            return False
        self.bytes = larger
        return True

    def _ends_in_a_hole(self, partition: TopicPartition, look: _Look) -> bool:
        """Return whether nothing is left; otherwise wait a little, because a broker has not sent all that may exist."""
        if self.client.is_hole(partition, look.position, look.end, self.topic_ids.get(partition.topic)):
            return True
        deadline = self.deadlines.setdefault(partition, self.client.reading(partition, look.end))
        deadline.pause(TransientError(f"the broker sends nothing from {look.position} on"))
        return False

    def _look(self, positions: Mapping[TopicPartition, int], *, alone: bool = False) -> dict[TopicPartition, _Look]:
        if not positions:
            return {}
        together = 1 if alone else max(1, self.client.config.fetch_max_bytes // self.bytes)

        def look(partition: TopicPartition, fetched: FetchedPartition | None) -> _Look | None:
            return None if fetched is None else self._seen(partition, positions[partition], fetched)

        looks = self.client.fetch_parts(positions, look, self.topic_ids, self.bytes, together).result()
        for partition, position in positions.items():
            if looks[partition] is None:
                begin, end = self.client.log_range(partition)
                raise PositionGoneError(
                    f"position {position} of {partition.split_id} does not exist: its log reaches from {begin} to {end}"
                )
        return {partition: answer for partition, answer in looks.items() if answer is not None}

    def _seen(self, partition: TopicPartition, position: int, fetched: FetchedPartition) -> _Look:
        head = None
        with corruption_named(partition.split_id):
            batches = self.client.split(fetched)
            for batch in visible_batches(batches, fetched.aborted):
                self.cache.keep(partition, batch)
                head = head or self.find(partition, batch, position)
        if batches:
            self.deadlines.pop(partition, None)
            self.largest = max(self.largest, *(len(batch.data) for batch in batches))
        if head is not None:
            return _Look(position, head)
        if batches:
            return _Look(batches[-1].last_offset + 1, more=True)
        end = fetched.end(self.client.config.isolation_level)
        return _Look(position, more=position < end, is_starved=position < end, end=end)


def _first_by_timestamp(_: TopicPartition, batch: RecordBatch, position: int) -> Head | None:
    return first_record(batch, position)
