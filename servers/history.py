"""Writes a synthetic history to Kafka fast: millions of records with given event times.

NumPy encodes record batches (magic 2, KIP-98): a header, and records whose numbers are zigzag varints relative to it.
One array has a row for each record and a column for each possible byte.  A mask marks the real bytes, and a selection
by the mask joins the rows.  That encodes some millions of records a second.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import cramjam
import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tidegate.errors import ServerError, did_you_mean

Bytes = NDArray[np.uint8]
Column = tuple[Bytes, NDArray[np.bool_]]

# base offset, length, leader epoch, magic, CRC-32C | attributes, last offset delta, first timestamp,
# last timestamp, producer id, producer epoch, first sequence, number of records
BEFORE_CRC = struct.Struct(">qiibI")
AFTER_CRC = struct.Struct(">hiqqqhii")
LENGTH_STARTS_AT = 12
MAGIC = 2
NONE = -1

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024


def _snappy(records: bytes) -> bytes:
    """Compress as Kafka's Java clients do: blocks of raw Snappy in the framing of snappy-java."""
    blocks = [bytes(cramjam.snappy.compress_raw(records[at : at + XERIAL_BLOCK])) for at in _steps(records)]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _steps(records: bytes) -> range:
    return range(0, len(records), XERIAL_BLOCK)


def _lz4(records: bytes) -> bytes:
    """Compress as Kafka's Java clients do: a frame of independent blocks, without a checksum of its content."""
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(records)
    return bytes(compressor.finish())


# The index of a codec is its number in the attributes of a batch.
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": lambda records: bytes(cramjam.gzip.compress(records)),
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": lambda records: bytes(cramjam.zstd.compress(records)),
}


def encode_batch(timestamps_ms: NDArray[np.int64], values: Bytes, compression: str, keys: Bytes | None = None) -> bytes:
    """Return one record batch with base offset 0, as a producer sends it.

    timestamps_ms: the event time of each record, in any order.
    values: an array with a row of bytes for each record.
    keys: the same for keys; None: they are null.
    """
    count = len(timestamps_ms)
    first = timestamps_ms[0]
    body = [
        _constant(count, 0),  # the attributes, which are unused
        _varints(timestamps_ms - first),
        _varints(np.arange(count)),
        *([_constant(count, 1)] if keys is None else _sized(keys)),  # null has only the length -1
        *_sized(values),
        _constant(count, 0),  # no headers
    ]
    lengths = np.sum([mask.sum(axis=1) for _, mask in body], axis=0)
    columns = [_varints(lengths), *body]
    records = np.hstack([cells for cells, _ in columns])[np.hstack([mask for _, mask in columns])].tobytes()

    attributes = list(CODECS).index(compression)
    checked = AFTER_CRC.pack(attributes, count - 1, first, timestamps_ms.max(), NONE, NONE, NONE, count) + CODECS[
        compression
    ](records)
    length = BEFORE_CRC.size - LENGTH_STARTS_AT + len(checked)
    return BEFORE_CRC.pack(0, length, NONE, MAGIC, google_crc32c.value(checked)) + checked


def _sized(values: Bytes) -> list[Column]:
    return [_varints(np.full(len(values), values.shape[1])), (values, np.ones(values.shape, bool))]


def _constant(count: int, byte: int) -> Column:
    return np.full((count, 1), byte, np.uint8), np.ones((count, 1), bool)


def _varints(numbers: NDArray[np.int64]) -> Column:
    """Return zigzag varints: seven bits in each byte, the lowest first; the top bit is set if more bytes follow."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    width = max(1, -(-int(zigzag.max()).bit_length() // 7))
    shifted: NDArray[Any] = zigzag[:, None] >> np.arange(0, 7 * (width + 1), 7, dtype=np.uint64)
    more = shifted[:, 1:] != 0
    cells = (shifted[:, :-1] & 0x7F).astype(np.uint8) | (more * np.uint8(0x80))
    mask = shifted[:, :-1] != 0
    mask[:, 0] = True
    return cells, mask


IN_FLIGHT = 4  # kafka-python refuses the fifth request to a node
ALL_REPLICAS = -1
ZSTD_VERSION = 7  # the first version of the ProduceRequest that allows all codecs
LAST_NAMED_VERSION = 12  # later versions name topics by id


def write_history(  # noqa: PLR0913 - all but the first four have defaults
    bootstrap_servers: str,
    topic: str,
    partition: int,
    timestamps_ms: NDArray[np.int64],
    *,
    value_size: int = 100,
    compression: str = "none",
    records_per_batch: int = 4000,
    seed: int = 0,
    keys: NDArray[np.int64] | None = None,
) -> None:
    """Append one record for each timestamp, in their order, and return when all are stored.

    Half of the bytes of a value are random, so that values compress about two to one.

    timestamps_ms: the event times in ms since the epoch, in any order.
    value_size: the size of each value in bytes.
    compression: none, gzip, snappy, lz4 or zstd.
    records_per_batch: the number of records of a batch.  A batch must stay below the topic's ``max.message.bytes``
        (1 MiB).
    seed: the seed of the values; the same seed gives the same values.
    keys: the key of each record, which has it as 8 bytes, the highest first; None: the records have no keys.

    Raises ServerError if the compression is unknown or the broker refuses a batch.
    """
    if compression not in CODECS:
        nearest = did_you_mean(compression, CODECS)
        raise ServerError(f"compression is {compression!r}, but it must be one of {', '.join(CODECS)}{nearest}")
    times = np.asarray(timestamps_ms, np.int64)
    parts = ((start, times[start : start + records_per_batch]) for start in range(0, len(times), records_per_batch))
    of_keys = None if keys is None else keys.astype(">i8").view(np.uint8).reshape(-1, 8)
    encoded = (
        encode_batch(
            part,
            _half_random(len(part), value_size, [seed, start]),
            compression,
            None if of_keys is None else of_keys[start : start + len(part)],
        )
        for start, part in parts
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
