"""Some bad days of a cluster of three brokers, and what its partitions do without a leader or with another one.

All bad days, and for longer, by ``bad_days`` as a program.
"""

import time
from contextlib import ExitStack, closing

import pytest
from kafka.protocol.consumer import FetchRequest

from tests.enumerators.kafka import bad_days
from tests.enumerators.kafka.test_recreation import KILLS_BROKERS, NEW, OLD, Run, archived, fill, new_topic
from tests.support.command import PATIENCE_S
from tests.support.kafka.lab import Lab, Record, encode
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import DataLossError
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.client import KafkaClient, idle_clients
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.sources.kafka.java.properties import connection_config

pytestmark = KILLS_BROKERS

RECORDS = 500
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture(scope="module")
def cluster():
    with bad_days.start_cluster() as kafka:
        yield kafka


@pytest.fixture
def run(cluster):
    with ExitStack() as made:
        yield lambda *topics, **fields: made.enter_context(closing(Run(cluster, *topics, **fields)))


@pytest.mark.parametrize(
    ("day", "aligned"),
    [
        (bad_days.partitions_are_reassigned, True),
        (bad_days.the_network_splits, False),
        (bad_days.a_disk_is_full, True),
    ],
)
def test_every_row_is_read_once_though(cluster, day, aligned):
    day(cluster, aligned=aligned)


def await_leader(kafka, topic):
    with closing(KafkaClient(KafkaConnectionConfig(kafka.bootstrap_servers))) as client:
        client.log_range(TopicPartition(topic, 0))


def await_end(run, start):
    """Return the next offset, once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while (end := run.latest_offset(start)) == start:
        assert time.monotonic() < deadline
    return end


def test_an_unclean_election_is_data_loss_and_what_came_after_it_is_read_without(cluster, run, tmp_path):
    written = 50  # the log ends after the position again
    topic = new_topic(cluster, 20, configs=UNCLEAN, replicas=(2, 3))
    query = run(topic)
    lenient = run(topic, fail_on_data_loss=False)
    query.drain()
    cluster.kill(3)
    fill(cluster, topic, 30, OLD + 20_000)
    with_end = run(topic, ending_timestamp=OLD + 45_000)  # at offset 45
    before_end = with_end.latest_offset(INITIAL_OFFSET, Budget(rows=15))
    assert before_end["enumerator"]["ends"] == {f"{topic}-0": [OLD + 45_000, 45]}
    planned = await_end(lenient, INITIAL_OFFSET)
    assert planned["positions"] == {f"{topic}-0": 50}
    _, last = run(topic).drain()
    of_archive = archived(cluster, topic, tmp_path)
    with_archive = run(topic, fail_on_data_loss=False, **of_archive)
    _, last_with_archive = with_archive.drain()
    cluster.kill(2)
    cluster.restart(3)
    await_leader(cluster, topic)
    fill(cluster, topic, written, NEW)
    # The range was planned from the old leader's log: of the new log it has only the records that both logs have.
    assert lenient.read(INITIAL_OFFSET, planned) == [(topic, 0, n, OLD + n * 1000) for n in range(20)]
    with pytest.raises(
        DataLossError, match=r"up to position 50, but a leader .* leader epoch \d+ ends at 20; .* from position 20"
    ):
        run(topic).drain(last)
    # Nothing is lost that was read, but the end is another: the first record of the new leader.
    records, last_with_end = with_end.drain(before_end)
    assert [offset for *_, offset, _ in records] == [*range(before_end["positions"][f"{topic}-0"], 20)]
    assert last_with_end["enumerator"]["ends"] == {f"{topic}-0": [OLD + 45_000, 20]}
    with pytest.raises(DataLossError, match=f"holds {topic}-0 up to offset 49, but Kafka has lost .* from 20 on"):
        with_archive.drain(last_with_archive)
    with pytest.raises(DataLossError, match=f"holds {topic}-0 up to offset 49, but Kafka has lost .* from 20 on"):
        run(topic, **of_archive).drain()
    with pytest.raises(DataLossError, match=r"--out is .* up to offset 49, but Kafka has lost .* from 20 on"):
        archived(cluster, topic, tmp_path)
    records, _ = lenient.drain(planned)
    assert records == [(topic, 0, 20 + n, NEW + n * 1000) for n in range(written)]
    cluster.restart(2)


def test_a_partition_without_a_leader_does_not_keep_the_others_from_being_read(cluster, run):
    topic, lonely = (new_topic(cluster, 5, configs=UNCLEAN, replicas=(node,)) for node in (2, 3))
    query = run(topic, lonely)
    _, last = query.drain()
    cluster.kill(3)
    fill(cluster, topic, 5, OLD + 5000)
    records, last = query.drain(last)
    assert len(records) == 5
    assert query.source_progress()["unavailableSplits"] == [f"{lonely}-0"]
    again = run(topic, lonely)
    fill(cluster, topic, 5, OLD + 10_000)
    records, last = again.drain(last)
    assert len(records) == 5
    cluster.restart(3)
    fill(cluster, lonely, 5, OLD + 5000)
    records, _ = again.drain(last)
    assert len(records) == 5


@pytest.fixture
def asked(monkeypatch):
    """Return a list that receives the brokers that send the responses to fetches, in order."""
    addresses = []
    send = BrokerConnection.send

    def sent(connection, request, timeout_s):
        if isinstance(request, FetchRequest):
            addresses.append(connection.address)
        return send(connection, request, timeout_s)

    monkeypatch.setattr(BrokerConnection, "send", sent)
    return addresses


def test_records_come_from_the_follower_in_the_client_s_rack(cluster, asked):
    """KIP-392; if the follower cannot, the leader serves."""
    leader, follower, _ = cluster.bootstrap_servers.split(",")
    topic = new_topic(cluster, replicas=(1, 2))
    Lab(cluster).append(topic, *(encode([Record(value=b"x" * 1000)] * 50) for _ in range(RECORDS // 50)))

    def read(rack):
        asked.clear()
        properties = {"fetch.max.bytes": "65536"} | ({} if rack is None else {"client.rack": rack})
        reader = KafkaSplitReader(connection_config(f"{leader},{follower}", properties))
        rows = sum(batch.num_rows for batch in reader.read(ReadTask((SplitRange(f"{topic}-0", 0, RECORDS),))))
        idle_clients.close()
        return rows

    assert read(None) == RECORDS
    assert set(asked) == {leader}
    assert read("rack-1") == RECORDS
    assert set(asked) == {leader}
    assert read("rack-2") == RECORDS
    assert asked[0] == leader  # the leader names the follower
    assert set(asked[1:]) == {follower}
    cluster.kill(2)
    assert read("rack-2") == RECORDS
    cluster.restart(2)
    assert set(asked) == {leader}
