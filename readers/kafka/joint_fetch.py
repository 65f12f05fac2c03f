"""Fetches small ranges of many partitions by one request for each broker instead of one for each range."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tidegate.alignment.splits import SplitRange
from tidegate.errors import PositionGoneError
from tidegate.readers.kafka.client import FEW_BYTES, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import FetchedPartition
from tidegate.readers.kafka.records.batches import holds_a_batch

FIRST_GUESS_BYTES_PER_RECORD = 1000.0
MARGIN = 1.1
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
