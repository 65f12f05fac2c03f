"""The consumer group to which a query commits, and from which a query may begin: on a real broker."""

import itertools
import threading
from concurrent.futures import wait
from contextlib import closing, suppress

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as Partition
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
from kafka.structs import OffsetAndMetadata

from tests.support.command import await_that
from tests.support.logs import coordinating, drain
from tests.support.streams import NOON, even_times, every, kafka_source, new_topic
from tidegate import KafkaSource
from tidegate.enumerators.kafka import commits as commits_module
from tidegate.enumerators.kafka.commits import GroupCommits
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.kafka.offsets import OffsetsSpec, resolve
from tidegate.enumerators.kafka.subscription import Subscribe
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import OptionError
from tidegate.readers.kafka.client import EARLIEST, KafkaClient
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition

GROUPS = (f"group-{number}" for number in itertools.count())


@pytest.fixture
def group():
    return next(GROUPS)


@pytest.fixture(scope="module")
def topic(kafka):
    return new_topic(kafka, even_times(NOON, NOON + 1000, 20), even_times(NOON, NOON + 1000, 10))


@pytest.fixture
def committed(kafka, group):
    """Return the offsets of the group as an administrator sees them, by partition."""

    def ask():
        with (
            KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin,
            suppress(CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError),
        ):
            (offsets,) = admin.list_group_offsets([group]).values()
            return {p.partition: at.offset for p, at in offsets.items()}
        return None

    return ask


def commit_as_consumer(kafka, group, topic, offsets):
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False)
    consumer.assign([Partition(topic, p) for p in offsets])
    consumer.commit({Partition(topic, p): OffsetAndMetadata(at, "", -1) for p, at in offsets.items()})
    consumer.close()


def enumerator_of(kafka, topic, group, state=None):
    start = OffsetsSpec("startingOffsets", EARLIEST)
    config = KafkaConnectionConfig(kafka.bootstrap_servers)
    return KafkaEnumerator(config, Subscribe((topic,)), start, None, state, commit_group_id=group)


@pytest.fixture
def enumerator(kafka, topic, group):
    made = enumerator_of(kafka, topic, group)
    yield made
    made.close()


def test_positions_of_written_batches_are_committed_and_the_last_ones_before_it_closes(enumerator, topic, committed):
    enumerator.commit({f"{topic}-0": 3, f"{topic}-1": 1})
    await_that(lambda: committed() == {0: 3, 1: 1})
    for position in range(4, 12):
        enumerator.commit({f"{topic}-0": position, f"{topic}-1": 1})
    enumerator.close()
    assert committed() == {0: 11, 1: 1}


def test_positions_of_a_topic_that_was_recreated_since_are_not_committed(kafka, topic, group, committed):
    before = {"topics": {topic: {"id": "3wPRAVyyQuWBJIrTXdHuzg", "epochs": [0, 0]}}}
    with closing(enumerator_of(kafka, topic, group, before)) as made:
        made.commit({f"{topic}-0": 3, f"{topic}-1": 1})
    assert not committed()


def test_a_group_with_members_keeps_its_offsets_and_the_query_only_warns_once(kafka, enumerator, topic, group, caplog):
    consumer = KafkaConsumer(topic, bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False)
    await_that(lambda: consumer.poll(timeout_ms=1000) or consumer.assignment())  # a busy broker takes long to let it in
    for position in (3, 4, 5):
        enumerator.commit({f"{topic}-0": position})
        await_that(lambda: not enumerator._commits._is_open)
    enumerator.close()
    consumer.close()
    (record,) = [record for record in caplog.records if record.name == "tidegate.planner"]
    assert f"'{group}' has members, and only they may commit its offsets" in record.getMessage()


def test_a_cluster_that_is_away_holds_nobody_up(group, monkeypatch):
    answers, reached = threading.Event(), []
    commits = GroupCommits(KafkaConnectionConfig("127.0.0.1:1"), group)
    monkeypatch.setattr(commits._group, "commit", lambda offsets: (answers.wait(60), reached.append(offsets)))
    for position in range(100):
        commits.commit({TopicPartition("orders", 0): position})
    assert not reached
    answers.set()
    commits.close()
    # Positions that came while nobody answered are one commit.
    assert reached[-1] == {TopicPartition("orders", 0): 99}
    assert len(reached) <= 2


def test_a_failure_that_nobody_expects_is_told_and_ends_no_later_commit(group, monkeypatch, caplog):
    def fail(_):
        raise RuntimeError("no memory is left")

    commits, done = GroupCommits(KafkaConnectionConfig("127.0.0.1:1"), group), []
    for position, commit in enumerate([fail, fail, done.append]):
        monkeypatch.setattr(commits._group, "commit", commit)
        commits.commit({TopicPartition("orders", 0): position})
        await_that(lambda: not commits._is_open)
    commits.close()
    assert done == [{TopicPartition("orders", 0): 2}]
    (record,) = caplog.records
    assert record.getMessage().endswith("keeps its old offsets: RuntimeError: no memory is left")


def test_a_commit_whose_connections_are_closed_under_it_warns_of_nothing(group, monkeypatch, caplog):
    asked, closed = threading.Event(), threading.Event()

    def break_off(_):
        asked.set()
        closed.wait(60)
        raise OSError("Bad file descriptor")

    monkeypatch.setattr(commits_module, "_PATIENCE_S", 0)
    commits = GroupCommits(KafkaConnectionConfig("127.0.0.1:1"), group)
    monkeypatch.setattr(commits._group, "commit", break_off)
    monkeypatch.setattr(commits._group, "close", closed.set)
    commits.commit({TopicPartition("orders", 0): 1})
    assert asked.wait(60)
    commits.close()
    wait([commits._run], 60)
    assert not caplog.records


def test_what_stays_the_same_is_committed_again_only_after_an_hour(group, monkeypatch):
    now, asked = [0.0], []
    commits = GroupCommits(KafkaConnectionConfig("127.0.0.1:1"), group, clock=lambda: now[0])
    monkeypatch.setattr(commits._group, "commit", asked.append)
    positions = {TopicPartition("orders", 0): 7}
    for now[0] in (0.0, 1.0, 3599.0, 3600.0, 3601.0):
        commits.commit(positions)
        await_that(lambda: not commits._is_open)
    commits.close()
    assert asked == [positions, positions]


def starts(kafka, topic, group, **options):
    partitions = [TopicPartition(topic, p) for p in (0, 1)]
    with KafkaClient(KafkaConnectionConfig(kafka.bootstrap_servers)) as client:
        spec = kafka_source(kafka, topic, starting_group_id=group, **options)._start
        return {p.partition: at for p, at in resolve(spec, partitions, client).items()}


def test_a_partition_without_a_commit_begins_at_the_starting_offsets(kafka, topic, group):
    commit_as_consumer(kafka, group, topic, {0: 13})
    for offsets, start in (("earliest", 0), ("latest", 10), ({topic: {0: 1, 1: 7}}, 7)):
        assert starts(kafka, topic, group, starting_offsets=offsets) == {0: 13, 1: start}


def test_a_partition_without_a_commit_is_an_error_by_default(kafka, topic, group):
    commit_as_consumer(kafka, group, topic, {0: 13})
    sentence = rf"'{group}', a group that has committed no offset of {topic}-1; set startingOffsets to begin there$"
    with pytest.raises(OptionError, match=sentence):
        starts(kafka, topic, group)


def test_a_query_takes_over_from_a_group_and_shows_its_lag_in_another_one(kafka, topic, group, committed):
    commit_as_consumer(kafka, f"{group}-before", topic, {0: 13, 1: 4})
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    options |= {"startingGroupId": f"{group}-before", "commitGroupId": group}
    with coordinating(KafkaSource.from_options(options)) as run:
        records, _ = drain(run, INITIAL_OFFSET)
    assert sorted(records) == [(f"{topic}-{p}", at) for p, at in every([20, 10]) if at >= (13, 4)[p]]
    await_that(lambda: committed() == {0: 20, 1: 10})


def test_a_batch_query_begins_at_a_group_too_and_commits_nothing(kafka, topic, group):
    assert kafka_source(kafka, topic, starting_group_id=group).as_batch().starting_offsets is None
    with pytest.raises(OptionError, match="commitGroupId is for streams"):
        kafka_source(kafka, topic, commit_group_id=group).as_batch()
