"""Topics of a real broker, written raw and read by the reader and by kafka-python; and what brokers send."""

import itertools
import struct
import zlib
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

import google_crc32c
import pyarrow as pa
from kafka import KafkaConsumer
from kafka import TopicPartition as ConsumerPartition
from kafka.protocol.producer import ProduceRequest
from kafka.record import default_records
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tests.support.bytes import varint
from tidegate.alignment.splits import SplitRange
from tidegate.kafka_private import FetchRequest
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.client import LATEST, KafkaClient
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.fetch import fetched_partitions
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.readers.kafka.rows import arrow_schema
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.readers.kafka.wire.login import decode_response
from tidegate.servers.history import CODECS

# kafka-python's own checksum is plain Python, and takes a third of a second for a MB.
default_records.calc_crc32c = lambda data: google_crc32c.value(bytes(data))

HEADER = 61
TOPIC_NAMES = (f"readers-{number}" for number in itertools.count())


class Record(NamedTuple):
    timestamp: int = 1_000
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple = ()


def encode(records, codec="none", base_offset=0, producer_id=-1, flags=0):
    """One record batch, encoded by kafka-python and compressed by us, because it lacks the libraries."""
    builder = default_records.DefaultRecordBatchBuilder(2, 0, 0, producer_id, -1, -1, 1 << 30)
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    plain = bytes(builder.build())
    batch = struct.pack(">q", base_offset) + plain[8:HEADER] + CODECS[codec](plain[HEADER:])
    return reseal(batch, attributes=[*CODECS].index(codec) | flags)


def reseal(batch, attributes=None):
    """The batch with a length and a checksum that fit its content."""
    if attributes is not None:
        batch = batch[:21] + struct.pack(">h", attributes) + batch[23:]
    checksum = google_crc32c.value(batch[21:])
    return batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:17] + struct.pack(">I", checksum) + batch[21:]


def limit_reading(monkeypatch, seconds):
    """Let only the waiting for what a broker should have sent end so soon: a busy machine has its time for all else."""
    reading = KafkaClient.reading

    def read_shortly(client, partition, end):
        return reading(KafkaClient(replace(client.config, deadline_s=seconds)), partition, end)

    monkeypatch.setattr(KafkaClient, "reading", read_shortly)


class Lab:
    """Topics of a real broker: written raw, read by the reader and by kafka-python's consumer."""

    def __init__(self, kafka):
        self.kafka = kafka

    def config(self, **changes):
        return KafkaConnectionConfig(self.kafka.bootstrap_servers, **changes)

    def new_topic(self, partitions=1, **configs):
        name = next(TOPIC_NAMES)
        self.kafka.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    def append(self, topic, *batches, partition=0):
        data = ProduceRequest.TopicProduceData
        connection = BrokerConnection(self.kafka.bootstrap_servers.split(",")[0], {}, 10)
        for batch in batches:
            part = data.PartitionProduceData(index=partition, records=batch)
            request = ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[data(name=topic, partition_data=[part])],
                max_version=12,
            )
            response = decode_response(request, connection.receive(connection.send(request, 10), 10))
            assert response.responses[0].partition_responses[0].error_code == 0
        connection.close()

    def end(self, topic, partition=0, **changes):
        client = KafkaClient(self.config(**changes))
        at = TopicPartition(topic, partition)
        offset, _ = client.list_offsets({at: LATEST})[at]
        client.close()
        return offset

    def batches(
        self,
        topic,
        start,
        end,
        *,
        config=None,
        details=None,
        **options,
    ):
        reader = KafkaSplitReader(config or self.config(), **options)
        return reader.read(ReadTask((SplitRange(f"{topic}-0", start, end),), () if details is None else (details,)))

    def read(self, topic, start, end, **options):
        return rows(self.batches(topic, start, end, include_headers=True, **options))

    def consume(self, topic, start, end, isolation_level="read_uncommitted"):
        consumer = KafkaConsumer(
            bootstrap_servers=self.kafka.bootstrap_servers,
            isolation_level=isolation_level,
            auto_offset_reset="none",
            enable_auto_commit=False,
        )
        partition = ConsumerPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, start)
        found = []
        while consumer.position(partition) < end:
            found += consumer.poll(1000).get(partition, [])
        consumer.close()
        return [
            {
                "key": record.key,
                "value": record.value,
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestampType": record.timestamp_type,
                "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
            }
            for record in found
            if record.offset < end
        ]


def rows(batches):
    """The rows of all batches, with timestamps in milliseconds as Kafka has them."""
    found = []
    for batch in batches:
        batch.validate(full=True)
        place = batch.schema.get_field_index("timestamp")
        # Python's datetimes hold fewer.
        times = [time // 1000 for time in batch.column(place).cast(pa.int64()).to_pylist()]
        found += batch.set_column(place, "timestamp", pa.array(times, pa.int64())).to_pylist()
    return found


SCHEMA = arrow_schema(include_headers=True)


def batch(values=None, headers=None, timestamps_ms=None, first_offset=40):
    count = len(next(column for column in (values, headers, timestamps_ms) if column is not None))
    columns = {
        "key": [None] * count,
        "value": values or [None] * count,
        "topic": ["orders"] * count,
        "partition": [3] * count,
        "offset": range(first_offset, first_offset + count),
        "timestamp": [1000 * ms for ms in timestamps_ms or [0] * count],
        "timestampType": [0] * count,
        "headers": headers or [None] * count,
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


BY_NAME, BY_ID = 10, 13
ORDERS_ID = UUID(int=7)


def response(version, records=b"records", topic=b"orders", length=None):
    """One with the records of partition 3; ``length``: another one than they have."""
    length = len(records) if length is None else length
    if version == BY_NAME:
        head = struct.pack(">iihiih", 1, 0, 0, 0, 1, len(topic)) + topic
        return head + struct.pack(">iihqqqiqqi", 1, 3, 0, 100, 90, 0, 1, 7, 15, length) + records
    head = struct.pack(">ixihiB", 1, 0, 0, 0, 2) + ORDERS_ID.bytes
    fields = struct.pack(">BihqqqBqqxi", 2, 3, 0, 100, 90, 0, 2, 7, 15, -1)
    return head + fields + varint(length + 1) + records + bytes(3)


def answered(data, version, topic_id=ORDERS_ID):
    """What a response is read as; the request named a topic by its name and this id."""
    request = FetchRequest()
    request.API_VERSION = version
    request.with_header(correlation_id=1, client_id="any")
    return list(fetched_partitions(decode_response(request, memoryview(data)), {"orders": topic_id}))


LOG_APPEND_TIME = 0x08


class Message(NamedTuple):
    timestamp: int = 1_000
    key: bytes | None = None
    value: bytes | None = b"v"


def sealed(message, offset, attributes):
    """The message with another offset and other attributes, and a checksum that fits."""
    checked = message[16:17] + bytes([attributes]) + message[18:]
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def plain(magic, offset, message, *, stamped=False):
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 30)
    builder.append(offset, message.timestamp, message.key, message.value)
    return sealed(bytes(builder.build()), offset, LOG_APPEND_TIME * stamped)


def wrapper(
    magic,
    messages,
    codec,
    *,
    offset=None,
    stamped_ms=None,
):
    """Messages in one block; in format 1 their offsets count from the first one, and the wrapper's is the last one's.

    offset: of the wrapper, if it is another.
    stamped_ms: the time that the broker gave it.
    """
    messages = list(messages)
    first = messages[0][0] if magic else 0
    block = CODECS[codec](b"".join(plain(magic, at - first, message) for at, message in messages))
    whole = plain(magic, 0, Message(messages[0][1].timestamp if stamped_ms is None else stamped_ms, None, block))
    attributes = [*CODECS].index(codec) | LOG_APPEND_TIME * (stamped_ms is not None)
    return sealed(whole, messages[-1][0] if offset is None else offset, attributes)


def row(topic, partition, magic, offset, message, stamped_ms=None):
    """Return the row that Spark's own source makes of it."""
    timestamp = message.timestamp if stamped_ms is None else stamped_ms
    return {
        "key": message.key,
        "value": message.value,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp if magic else -1,
        "timestampType": (0 if stamped_ms is None else 1) if magic else -1,
        "headers": None,
    }
