"""Writes a synthetic history to Kafka fast: millions of records with given event times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import ServerError, did_you_mean
from tidegate.servers.batches import CODECS, Bytes, encode_batch

IN_FLIGHT = 4  # kafka-python refuses the fifth request to a node
ALL_REPLICAS = -1
ZSTD_VERSION = 7  # the first version of the ProduceRequest that allows all codecs
LAST_NAMED_VERSION = 12  # later versions name topics by id


def write_history(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    timestamps_ms: NDArray[np.int64],
    *,
    value_size: int = 100,
    compression: str = "none",
    records_per_batch: int = 4000,
    seed: int = 0,
) -> None:
    """Append one record for each timestamp, in their order, and return when all are stored.

    The records have no keys.  Half of the bytes of a value are random, so that values compress about two to one.

    timestamps_ms: the event times in ms since the epoch, in any order.
    value_size: the size of each value in bytes.
    compression: none, gzip, snappy, lz4 or zstd.
    records_per_batch: the number of records of a batch.  A batch must stay below the topic's ``max.message.bytes``
        (1 MiB).
    seed: the seed of the values; the same seed gives the same values.

    Raises ServerError if the compression is unknown or the broker refuses a batch.
    """
    if compression not in CODECS:
        nearest = did_you_mean(compression, CODECS)
        raise ServerError(f"compression is {compression!r}, but it must be one of {', '.join(CODECS)}{nearest}")
    times = np.asarray(timestamps_ms, np.int64)
    parts = ((start, times[start : start + records_per_batch]) for start in range(0, len(times), records_per_batch))
    encoded = (
        encode_batch(part, _half_random(len(part), value_size, [seed, start]), compression) for start, part in parts
    )
    write_batches(bootstrap_servers, topic, ((partition, batch) for batch in encoded))


def write_batches(bootstrap_servers: str, topic: str, batches: Iterable[tuple[int, bytes]]) -> None:
    """Append record batches to partitions, given by number, as they are, which kafka-python's producer cannot do.

    Batches are encoded on the manager's loop while the broker works on the last ones.

    Raises ServerError if the topic has no such partition or the broker refuses a batch.
    """
    from kafka import KafkaAdminClient
    from kafka.errors import for_code

    from tidegate.kafka_private import ProduceRequest, connections_of

    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        manager = connections_of(admin)
        leaders = {at["partition_index"]: at["leader_id"] for at in admin.describe_topics([topic])[0]["partitions"]}

        def request(partition: int, batch: bytes) -> Any:
            topic_data = ProduceRequest.TopicProduceData
            data = topic_data(
                name=topic, partition_data=[topic_data.PartitionProduceData(index=partition, records=batch)]
            )
            return ProduceRequest(
                transactional_id=None,
                acks=ALL_REPLICAS,
                timeout_ms=30_000,
                topic_data=[data],
                min_version=ZSTD_VERSION,
                max_version=LAST_NAMED_VERSION,
            )

        async def settle(answer: Any) -> None:
            result = (await answer).responses[0].partition_responses[0]
            if result.error_code:
                reason = f"{for_code(result.error_code).__name__}: {result.error_message}"
                raise ServerError(f"Kafka refused a batch of records for {topic}-{result.index} ({reason})")

        async def send() -> None:
            pending: deque[Any] = deque()
            for partition, batch in batches:
                if partition not in leaders:
                    raise ServerError(f"the topic {topic!r} has no partition {partition}")
                pending.append(manager.send(request(partition, batch), node_id=leaders[partition]))
                if len(pending) == IN_FLIGHT:
                    await settle(pending.popleft())
            while pending:
                await settle(pending.popleft())

        manager.run(send)


def _half_random(count: int, size: int, seed: list[int]) -> Bytes:
    filled = np.full((count, size), ord("."), np.uint8)
    filled[:, : size // 2] = np.random.default_rng(seed).integers(0, 256, (count, size // 2), np.uint8)
    return filled
