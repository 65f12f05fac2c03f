"""Bad days of a Kafka cluster: three brokers, a writer and a reader that go on while things break.

The reader is the planner and the split reader in one process, without Spark: all the code that talks to Kafka.  Its
records are compared with those of kafka-python's consumer at the end, and with those that were acknowledged to the
writer.

python -m tests.enumerators.kafka.bad_days [--rounds 1] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ConsumerPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from tests.support.command import await_that
from tests.support.kafka.brokers import SplitCluster
from tests.support.logs import coordinating
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.alignment.plan import Limits
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.kafka_private import MetadataRequest
from tidegate.readers.kafka.cluster import KafkaCluster
from tidegate.readers.kafka.config import KafkaConnectionConfig

PARTITIONS = 6
NAMES = (f"bad-days-{number}" for number in itertools.count())
DEADLINE_S = 60  # of the client
NOON = 1_700_049_600_000
FAKE_CLOCK = "usr/lib/*/faketime/libfaketimeMT.so.1"  # where Debian has it; FAKE_CLOCK names another place
CLUSTER = {
    "replica.lag.time.max.ms": "1500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


def start_cluster():
    """Return three brokers.  All of them are controllers, so that any broker may be killed."""
    return SplitCluster(brokers=3, controllers=3, properties=CLUSTER, timeout_seconds=120)


class Writer(threading.Thread):
    """Writes numbered records round-robin until it is stopped.

    stored: the partition and the value of the records that all in-sync replicas have.
    """

    def __init__(self, kafka, topic):
        super().__init__(daemon=True)
        self._kafka, self._topic, self._over = kafka, topic, threading.Event()
        self.stored = []

    def run(self):
        producer = KafkaProducer(
            bootstrap_servers=self._kafka.bootstrap_servers, acks="all", retries=1000, delivery_timeout_ms=120_000
        )
        number, pending = 0, []
        while not self._over.is_set():
            for _ in range(20):
                partition = number % PARTITIONS
                value = b"%d" % number
                with suppress(KafkaError):
                    at_ms = NOON + 100 * number
                    sent = producer.send(self._topic, value, partition=partition, timestamp_ms=at_ms)
                    pending.append((sent, partition, value))
                number += 1
            self._over.wait(0.02)
            self.stored += [(p, value) for sent, p, value in pending if sent.is_done and sent.succeeded()]
            pending = [record for record in pending if not record[0].is_done]
        producer.flush(60)
        self.stored += [(p, value) for sent, p, value in pending if sent.is_done and sent.succeeded()]
        producer.close()

    def stop(self):
        self._over.set()
        self.join(180)
        assert not self.is_alive()


class Reading(threading.Thread):
    """Plans and reads a topic as Spark would, again and again, until it is stopped.

    rows: partition, offset and value, in the order of reading.
    longest_s: the longest time between two batches.
    """

    def __init__(self, kafka, topic, *, aligned, far=False):
        super().__init__(daemon=True)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
        if aligned:
            strategy = strategy.with_watermark_alignment(max_drift=timedelta(minutes=1))
        fields = {"subscribe": [topic], "starting_offsets": "earliest", "watermarks": strategy}
        self._planned = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, **fields)
        servers, properties = kafka.bootstrap_servers, {}
        if far:
            servers, properties = kafka.far_servers, {"request.timeout.ms": "2000"}
        self._read = KafkaSource(bootstrap_servers=servers, kafka=properties, **fields)
        self._limits = Limits(aligned=aligned)
        self._over = threading.Event()
        self.rows, self.error, self.longest_s = [], None, 0.0

    def run(self):
        try:
            self._stream()
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error

    def _stream(self):
        with coordinating(self._planned, limits=self._limits) as run:
            start, last = INITIAL_OFFSET, time.monotonic()
            while not self._over.is_set():
                end = run.latest_offset(start, Budget(rows=500))
                if end == start:
                    continue
                reader = self._read.reader(end.get("enumerator"))
                for task in run.tasks(start, end):
                    for batch in reader.read(task):
                        self.rows += rows_of(batch)
                start = end
                self.longest_s, last = max(self.longest_s, time.monotonic() - last), time.monotonic()

    def passes(self, more=200):
        """Wait until it has read this number of rows."""
        self.reads(len(self.rows) + more)

    def reads(self, count):
        await_that(lambda: len(self.rows) >= count or self.error, state=lambda: f"{len(self.rows)} of {count} rows")
        assert self.error is None, self.error

    def stop(self):
        self._over.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()


def rows_of(batch):
    return [(row["partition"], row["offset"], row["value"]) for row in batch.to_pylist()]


def ends_of(kafka, partitions):
    """Return the end of each partition.

    An admin client asks, since kafka-python's consumer asks a former leader again and again until its time is up.
    """
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        found = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: end.offset for partition, end in found.items()}


def reassign(kafka, topic, replicas):
    """Move all partitions of a topic to these nodes, and return when each broker knows that they alone hold it."""
    moved = {ConsumerPartition(topic, number): list(replicas) for number in range(PARTITIONS)}
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.alter_partition_reassignments(moved)
    # An admin client asks whichever broker it likes, and one of them may learn of it later than another.
    with closing(KafkaCluster(KafkaConnectionConfig(kafka.bootstrap_servers))) as cluster:
        for address in map(kafka.address, kafka.pids):
            await_that(partial(stands_on, cluster, address, topic, replicas), state=lambda: (topic, replicas))


def stands_on(cluster, address, topic, replicas):
    """Return whether a broker knows that these nodes alone hold all partitions of a topic, and one leads each."""
    known = partitions_at(cluster, address, topic)
    return all(list(each.replica_nodes) == replicas and each.leader_id in replicas for each in known)


def partitions_at(cluster, address, topic):
    """Return what a broker knows of the partitions of a topic."""
    named = [MetadataRequest.MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=named, allow_auto_topic_creation=False, min_version=4)
    (known,) = cluster.ask(address, request, DEADLINE_S).topics
    return known.partitions


def everything(kafka, topic):
    """Return partition, offset and value of all records, by kafka-python's consumer."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False)
    partitions = [ConsumerPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends, stored = ends_of(kafka, partitions), []
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        stored += [(r.partition, r.offset, r.value) for records in consumer.poll(500).values() for r in records]
    consumer.close()
    return stored


@contextmanager
def reading(kafka, *, aligned, far=False, replicas=(1, 2, 3), stamped_by="CreateTime"):
    """Write and read while the block breaks things.  Then all must be whole again, and every row read once."""
    topic = next(NAMES)
    in_sync = "2" if len(replicas) > 1 else "1"
    configs = {"min.insync.replicas": in_sync, "message.timestamp.type": stamped_by}
    kafka.create_topic(topic, PARTITIONS, configs, replicas=replicas)
    writer, reader = Writer(kafka, topic), Reading(kafka, topic, aligned=aligned, far=far)
    writer.start()
    reader.start()
    try:
        reader.passes()
        yield topic, reader
        reader.passes()
    finally:
        writer.stop()
        if kafka.is_whole:
            stored = everything(kafka, topic)
            with suppress(AssertionError):
                reader.reads(len(stored))
        reader.stop()
    assert reader.error is None, reader.error
    doubled = [row for row, times in Counter(reader.rows).items() if times > 1]
    assert sorted(reader.rows) == sorted(stored), f"{len(reader.rows)} of {len(stored)} rows, {len(doubled)} doubled"
    assert not Counter(writer.stored) - Counter((p, value) for p, _, value in stored), "the cluster lost stored records"
    everything_at_once(reader, stored)
    assert reader.longest_s < DEADLINE_S


def everything_at_once(reader, stored):
    """Read the same by a batch query."""
    with coordinating(reader._planned, limits=reader._limits) as run:
        tasks, state = run.everything()
        rows = [row for task in tasks for batch in reader._planned.reader(state).read(task) for row in rows_of(batch)]
    assert sorted(rows) == sorted(stored)


def a_leader_is_killed(kafka, *, aligned):
    with reading(kafka, aligned=aligned, replicas=(2, 3, 1)) as (_, reader):
        kafka.kill(2)
        reader.passes()
        kafka.restart(2)


def brokers_restart_one_after_the_other(kafka, *, aligned):
    with reading(kafka, aligned=aligned) as (_, reader):
        for node in (1, 2, 3):
            kafka.restart(node)
            reader.passes()


def partitions_are_reassigned(kafka, *, aligned):
    with reading(kafka, aligned=aligned, replicas=(1,)) as (topic, reader):
        reassign(kafka, topic, [2])
        reader.passes()
        reassign(kafka, topic, [3])


def too_few_replicas_are_in_sync(kafka, *, aligned):
    with reading(kafka, aligned=aligned, replicas=(3, 1, 2)):
        kafka.kill(1)
        kafka.kill(2)
        time.sleep(3)  # the time without replicas itself; without controllers, nobody reports it
        kafka.restart(1)
        kafka.restart(2)


def a_broker_comes_back_under_another_address(kafka, *, aligned):
    with reading(kafka, aligned=aligned, replicas=(3, 1, 2)) as (_, reader):
        kafka.move(3)
        reader.passes()
        kafka.move(1)


def a_disk_is_full(kafka, *, aligned):
    """A file that may not grow fails as on a full disk: the broker gives up its only log folder, and ends."""
    with reading(kafka, aligned=aligned, replicas=(2, 1, 3)) as (_, reader):
        resource.prlimit(kafka.pids[2], resource.RLIMIT_FSIZE, (1024, 1024))
        await_that(lambda: 2 not in kafka.pids)
        reader.passes()
        kafka.restart(2)


def the_network_splits(kafka, *, aligned):
    """Readers do not reach one broker, which all other processes reach."""
    with reading(kafka, aligned=aligned, far=True, replicas=(1, 2, 3)):
        held = kafka.far[1].held
        kafka.far[1].cut()
        await_that(lambda: kafka.far[1].held > held + 2)
        kafka.far[1].heal()


def a_broker_stands_still(kafka, *, aligned):
    """A broker that is stopped keeps its connections, and answers nothing; its partitions get other leaders."""
    with (
        reading(kafka, aligned=aligned, replicas=(2, 3, 1)) as (topic, reader),
        closing(KafkaCluster(KafkaConnectionConfig(kafka.bootstrap_servers))) as cluster,
    ):
        pid = kafka.pids[2]
        os.kill(pid, signal.SIGSTOP)
        try:
            await_that(lambda: all(each.leader_id != 2 for each in partitions_at(cluster, kafka.address(3), topic)))
            reader.passes()
        finally:
            os.kill(pid, signal.SIGCONT)
        reader.passes()


def the_clock_of_a_broker_is_off(kafka, *, aligned):
    """A leader, which is also a controller, is an hour ahead or behind.

    Without alignment, the leader stamps the records, so its partitions are an hour away from all others.
    """
    library = os.environ.get("FAKE_CLOCK") or next(Path("/").glob(FAKE_CLOCK), None)
    if library is None:
        print("the_clock_of_a_broker_is_off is left out: it needs libfaketime (apt-get install libfaketime)")
        return
    wrong = {
        "LD_PRELOAD": str(library),
        "FAKETIME": "+1h" if aligned else "-1h",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # otherwise a JVM starts in 20 s instead of one
    }
    with reading(
        kafka, aligned=aligned, replicas=(2, 3, 1), stamped_by="CreateTime" if aligned else "LogAppendTime"
    ) as (topic, reader):
        kafka.kill(2)
        with patch.dict(os.environ, wrong):
            kafka.restart(2)
        reassign(kafka, topic, [2, 3, 1])
        reader.passes()
        kafka.kill(2)
        kafka.restart(2)


BAD_DAYS: list[Callable] = [
    a_leader_is_killed,
    a_broker_comes_back_under_another_address,
    partitions_are_reassigned,
    the_network_splits,
    a_disk_is_full,
    too_few_replicas_are_in_sync,
    brokers_restart_one_after_the_other,
    a_broker_stands_still,
    the_clock_of_a_broker_is_off,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    with start_cluster() as kafka:
        for _, aligned, day in itertools.product(range(arguments.rounds), (True, False), BAD_DAYS):
            if arguments.only and day.__name__ not in arguments.only:
                continue
            begun = time.monotonic()
            day(kafka, aligned=aligned)
            print(f"{day.__name__}, aligned={aligned}: every row once, {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
