import logging
import multiprocessing
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import await_that
from tests.support.kafka.lab import Record, encode, limit_reading, rows
from tests.support.streams import delete_before
from tidegate.alignment.splits import Horizon, SplitRange
from tidegate.errors import CorruptDataError, DataLossError, DeadlineError
from tidegate.readers.contract import ReadTask
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka import client as kafka_client
from tidegate.readers.kafka.client import ClientPool, KafkaClient, idle_clients
from tidegate.readers.kafka.cluster import KafkaCluster
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import peek
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.servers.history import write_history

ROOT = Path(__file__).parents[3]


def small_batches(lab, count):
    topic = lab.new_topic()
    for at in range(0, count, 50):
        lab.append(topic, encode([Record(at + n, value=b"%d" % (at + n) * 20) for n in range(50)]))
    return topic


def offsets(records):
    return [row["offset"] for row in records]


def test_the_broker_may_die_in_mid_range(lab):
    topic = small_batches(lab, 1000)
    config = lab.config(fetch_max_bytes=5000, max_partition_fetch_bytes=5000)
    batches = lab.batches(topic, 5, 995, config=config, max_batch_bytes=5000)
    first = next(batches)
    lab.kafka.kill()
    restart = threading.Thread(target=lab.kafka.restart)
    restart.start()
    records = rows(chain([first], batches))
    restart.join()
    assert offsets(records) == list(range(5, 995))
    assert [row["timestamp"] for row in records] == list(range(5, 995))


def test_deleted_records_fail_the_read_unless_that_is_allowed(lab, caplog):
    topic = small_batches(lab, 300)
    delete_before(lab.kafka, topic, 120)
    with pytest.raises(DataLossError, match=f"records 0 to 200 of {topic}-0 are wanted, .* from 120 to 300"):
        lab.read(topic, 0, 200)
    with caplog.at_level(logging.WARNING):
        assert offsets(lab.read(topic, 0, 200, fail_on_data_loss=False)) == list(range(120, 200))
        assert lab.read(topic, 0, 100, fail_on_data_loss=False) == []
        assert lab.read(topic, 400, 500, fail_on_data_loss=False) == []
    assert f"records 0 to 200 of {topic}-0 are wanted" in caplog.text
    with pytest.raises(DataLossError, match="from 120 to 300"):
        lab.read(topic, 400, 500)


def test_an_end_that_the_log_never_reaches_meets_the_deadline(lab, monkeypatch):
    topic = small_batches(lab, 50)
    limit_reading(monkeypatch, 0.5)
    with pytest.raises(DeadlineError, match=f"read {topic}-0 up to 60 from Kafka at .* within 0.5 s: it ends at 50"):
        lab.read(topic, 0, 60, config=lab.config(fetch_max_wait_ms=10))


def test_compaction_leaves_holes(lab):
    topic = lab.new_topic(
        cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.001", min_compaction_lag_ms="0"
    )
    for at in range(0, 40, 4):
        lab.append(topic, encode([Record(at + n, key=b"%d" % (n % 3), value=b"v") for n in range(4)], "gzip"))
    # The newest keys of the last closed segment (32 to 35) stay, and so does the active segment.  The cleaner may need
    # several passes.
    while offsets(left := lab.consume(topic, 0, 40)) != list(range(first := 33, 40)):
        pass
    assert lab.read(topic, 0, 40) == left
    assert lab.read(topic, 0, first) == []
    with KafkaClient(lab.config()) as client:
        assert peek(client, {TopicPartition(topic, 0): 0}) == {TopicPartition(topic, 0): (first, first)}


def test_connections_outlive_a_read_and_are_not_shared(lab):
    topic = small_batches(lab, 200)
    config = lab.config(properties={"client_id": topic})
    pool = idle_clients

    def idle():
        return [client for client in pool._idle if client.config == config]

    assert offsets(lab.read(topic, 0, 200, config=config)) == list(range(200))
    (kept,) = idle()
    pairs = zip(
        lab.batches(topic, 0, 200, config=config, max_batch_bytes=2000),
        lab.batches(topic, 0, 200, config=config, max_batch_bytes=2000),
        strict=True,
    )
    assert all(one == other for one, other in pairs)
    assert len(idle()) == 2
    assert kept in idle()

    abandoned = lab.batches(topic, 0, 200, config=config, max_batch_bytes=2000)
    next(abandoned)
    abandoned.close()
    assert offsets(lab.read(topic, 50, 150, config=config)) == list(range(50, 150))


def test_connections_are_closed_when_no_read_needs_them_for_a_while(lab, monkeypatch):
    pool = ClientPool(idle_seconds=0.05)
    partition = TopicPartition(lab.new_topic(), 0)
    with pool.lend(lab.config()) as client:
        client.log_range(partition)
        connections = client._cluster._connections
        assert connections
    await_that(lambda: not connections)
    with monkeypatch.context() as patched, pool.lend(lab.config()) as client:
        patched.setattr(KafkaCluster, "metadata", None)  # the leaders are still known
        assert client.log_range(partition) == (0, 0)
    pool.close()
    assert not connections


STILL_LENT = """
from tidegate.readers.kafka.client import idle_clients
from tidegate.readers.kafka.config import KafkaConnectionConfig
lent = idle_clients.lend(KafkaConnectionConfig("localhost:9092"))
lent.__enter__()
"""


def test_a_process_ends_while_a_reader_still_has_its_client():
    command = [sys.executable, "-c", STILL_LENT]
    assert not subprocess.run(command, check=True, stderr=subprocess.PIPE, timeout=60).stderr


def count_rows(config, split):
    return sum(batch.num_rows for batch in KafkaSplitReader(config).read(ReadTask((split,))))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_worker_opens_its_own_connections(lab):
    split = SplitRange(f"{small_batches(lab, 100)}-0", 0, 100)
    assert count_rows(lab.config(), split) == 100
    with multiprocessing.get_context("fork").Pool(1) as workers:
        assert workers.apply(count_rows, (lab.config(), split)) == 100
        assert count_rows(lab.config(), split) == 100
        assert workers.apply(count_rows, (lab.config(), split)) == 100


def peak_rss_kib(config, split):
    """Read a range in a process of its own; return the peak of its memory in KiB."""
    code = f"""
import resource
from tests.readers.kafka.test_reader import count_rows
from tidegate.alignment.splits import SplitRange
from tidegate.readers.kafka.cluster import KafkaCluster
from tidegate.readers.kafka.config import KafkaConnectionConfig
assert count_rows({config!r}, {split!r}) == {split.end - split.start}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT).stdout)


def test_memory_does_not_grow_with_the_range(lab):
    topic = lab.new_topic()
    write_history(lab.kafka.bootstrap_servers, topic, 0, np.arange(1_000_000), compression="lz4")
    config = lab.config()
    small = peak_rss_kib(config, SplitRange(f"{topic}-0", 0, 1000))
    large = peak_rss_kib(config, SplitRange(f"{topic}-0", 0, 1_000_000))
    assert large - small < 16 << 10


def test_what_is_in_the_future_is_reported_by_the_time_that_comes_with_the_task(lab):
    topic = lab.new_topic()
    lab.append(topic, encode([Record(1_000), Record(100_000_000)]))
    event_times = RecordTimes(policy=EventTimePolicy(max_future_skew_ms=0))
    reader = KafkaSplitReader(lab.config(), event_times=event_times, include_event_time=True)
    for horizon_ms, usable in {100_000_001: [True, True], 100_000_000: [True, False]}.items():
        (batch,) = reader.read(ReadTask((SplitRange(f"{topic}-0", 0, 2),), horizon=Horizon(horizon_ms)))
        assert batch.column("event_time").is_valid().to_pylist() == usable


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_range_that_the_log_holds_is_read_though_a_broker_says_once_that_it_is_out_of_range(
    lab, monkeypatch, fail_on_data_loss
):
    topic = lab.new_topic()
    lab.append(topic, encode([Record()] * 10))
    read, stray = kafka_client.fetched_partitions, iter([kafka_client.OUT_OF_RANGE])

    def read_with_one_error(*response):
        for partition, error_code, fetched in read(*response):
            yield partition, next(stray, error_code), fetched

    monkeypatch.setattr(kafka_client, "fetched_partitions", read_with_one_error)
    assert len(lab.read(topic, 0, 10, fail_on_data_loss=fail_on_data_loss)) == 10
    assert next(stray, None) is None


def test_a_batch_that_becomes_too_large_is_named_to_who_reads_and_to_who_looks(lab):
    topic = lab.new_topic()
    lab.append(topic, encode([Record(value=b"v")]), encode([Record(value=bytes(500_000))], "zstd"))
    at = TopicPartition(topic, 0)
    sentence = (
        f"^{topic}-0: the record batch at offset 1 takes more than 100000 bytes decompressed; if it is sound, raise "
        "kafka.max.decompressed.bytes$"
    )
    config = lab.config(max_decompressed_bytes=100_000)
    with pytest.raises(CorruptDataError, match=sentence):
        lab.read(topic, 0, 2, config=config)
    with KafkaClient(config) as client:
        assert peek(client, {at: 0}) == {at: (0, 1_000)}
        with pytest.raises(CorruptDataError, match=sentence):
            peek(client, {at: 1})
    assert len(lab.read(topic, 0, 2)) == 2
