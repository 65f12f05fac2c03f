"""Peeks at single records of many partitions: a few requests at a time to each leader, as many as it needs.

A response holds a few MiB, so a request asks only for as many partitions as one response has room for.  A broker sends
nothing from a partition whose first batch exceeds the requested bytes, unless the partition comes first in its request.
So such partitions are requested again with more bytes, and finally alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidegate.alignment.splits import Head
from tidegate.errors import PositionGoneError, TransientError
from tidegate.readers.kafka.client import FEW_BYTES, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import FetchedPartition
from tidegate.readers.kafka.peeked import PeekedBatches
from tidegate.readers.kafka.records.batches import RecordBatch, corruption_named, visible_batches
from tidegate.readers.kafka.records.first_record import first_record
from tidegate.readers.retry import Deadline

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
    peeked: PeekedBatches | None = None,
    topic_ids: Mapping[str, UUID | None] | None = None,
    useful_bytes: int = FEW_BYTES,
) -> dict[TopicPartition, Head | None]:
    """Return the first visible data record at or after each position.

    find: returns the first record of a batch that counts; the default takes every record, by its timestamp.
    peeked: batches that need no request; new batches are kept there.
    useful_bytes: how much to ask of each partition, which is about what comes.  More is asked where no whole batch
        comes.

    None: there is none up to the end, which is the last stable offset under ``read_committed``.  The search
    continues behind these bytes if they hold only control records, aborted transactions or holes.  Raises
    PositionGoneError if a position is not within its log, or another topic has taken its topic's place.  Raises
    DeadlineError if the broker keeps sending nothing where there may be records.
    """
    peeked = PeekedBatches(0) if peeked is None else peeked
    return _Peek(client, find or _first_by_timestamp, peeked, topic_ids or {}, useful_bytes).heads(positions)


@dataclass
class _Peek:
    """One peek at many partitions.

    bytes: how much to ask of each.
    largest: the bytes of the largest batch that came.
    """

    client: KafkaClient
    find: FindHead
    peeked: PeekedBatches
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
                is_over = not look.more or self.peeked.is_nothing(partition, look.position)
                if partition not in again and (is_over or partition in starved & alone):
                    del left[partition]
                    heads[partition] = look.head
                    if look.head is None:
                        self.peeked.keep_nothing(partition, positions[partition])
                else:
                    left[partition] = look.position
            alone = again if self._asks_for_more(starved - alone) else again | (starved & left.keys())
        return heads

    def _known(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Head | None]:
        heads: dict[TopicPartition, Head | None] = {}
        for partition, position in positions.items():
            batch = self.peeked.at(partition, position)
            with corruption_named(partition.split_id):
                if batch is not None and (head := self.find(partition, batch, position)) is not None:
                    heads[partition] = head
            if partition not in heads and self.peeked.is_nothing(partition, position):
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
                self.peeked.keep(partition, batch)
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
