from itertools import islice

import numpy as np
import pytest
from kafka import KafkaConsumer, TopicPartition

from tidegate.errors import ServerError
from tidegate.servers import write_history
from tidegate.servers.history import CODECS

DISORDERED_MS = np.array([5_000, 4_999, 0, 2**41, 7_000, 6_000, 2**40 + 1], np.int64)


def consume(server, topic, count):
    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): count}
        return list(islice(consumer, count))
    finally:
        consumer.close()


@pytest.mark.parametrize("compression", CODECS)
def test_what_is_written_is_read_back_and_the_same_for_a_seed(kafka, compression):
    topic = f"codec-{compression}"
    # The broker decompresses the records, and stores them without compression.  So its decoders check them, and
    # kafka-python needs no codecs to read them.
    kafka.create_topic(topic, configs={"compression.type": "uncompressed"})
    count = 1000
    times = np.resize(DISORDERED_MS, count)
    for _ in range(2):
        write_history(
            kafka.bootstrap_servers,
            topic,
            0,
            times,
            value_size=300,
            compression=compression,
            records_per_batch=333,
            seed=3,
        )
    records = consume(kafka, topic, 2 * count)
    values = [record.value for record in records]
    assert [record.offset for record in records] == list(range(2 * count))
    assert [record.timestamp for record in records] == 2 * times.tolist()
    assert {record.key for record in records} == {None}
    assert all(len(value) == 300 and value.endswith(b"." * 150) for value in values)
    assert values[:count] == values[count:]
    assert len(set(values)) == count


def test_a_batch_that_is_too_large_is_refused(kafka):
    kafka.create_topic("too-large", configs={"max.message.bytes": "1000"})
    with pytest.raises(ServerError, match=r"refused a batch of records for too-large-0 \(MessageSizeTooLargeError"):
        write_history(kafka.bootstrap_servers, "too-large", 0, np.zeros(100, np.int64))


def test_wrong_arguments_are_named(kafka):
    kafka.create_topic("one-partition")
    with pytest.raises(
        ServerError, match=r"^compression is 'gzp', but .* none, gzip, snappy, lz4, zstd; did you mean 'gzip'\?$"
    ):
        write_history(kafka.bootstrap_servers, "one-partition", 0, DISORDERED_MS, compression="gzp")
    with pytest.raises(ServerError, match=r"^the topic 'one-partition' has no partition 7$"):
        write_history(kafka.bootstrap_servers, "one-partition", 7, DISORDERED_MS)
