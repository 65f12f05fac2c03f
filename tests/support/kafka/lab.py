"""Topics of a real broker, written raw, and read by the reader and by kafka-python's own consumer."""

import itertools
import struct
from dataclasses import replace
from typing import NamedTuple

import google_crc32c
import pyarrow as pa
from kafka import KafkaConsumer
from kafka import TopicPartition as ConsumerPartition
from kafka.protocol.producer import ProduceRequest
from kafka.record import default_records

from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.client import LATEST, KafkaClient
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.readers.kafka.wire.login import decode_response
from tidegate.servers.batches import CODECS

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
