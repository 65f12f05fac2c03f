"""The harnesses of tidegate's own connectors: a topic of a real broker, objects of a real endpoint."""

import itertools
import json
import os
import signal
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import ClassVar

from kafka import KafkaProducer
from pyspark.sql.types import StructType

from tests.support.buckets import Bucket
from tests.support.command import await_that, meanwhile
from tests.support.kafka.lab import Lab as Topics
from tests.support.kafka.lab import Record, encode
from tests.support.objects.endpoints import faulty
from tests.support.streams import archive_topic, committed_source, delete_before
from tests.support.tables import Delta, fill
from tidegate import KafkaSource, S3Source
from tidegate.conformance import Abilities, Ability, Fault, Harness, Writer
from tidegate.readers.places.place import Place

_TOPICS = (f"conformance-{number}" for number in itertools.count())
_NO_TIMESTAMP = -1
_BATCH_ROWS = 500
_MOST_BYTES = 4 << 20  # the maximum size of a row, since the kit writes rows beyond Kafka's limit
_PATIENCE_S = 60
_PATIENCE_WITH_STOPS_S = 4  # a deadline that outlasts the stops of the broker
_PATIENCE_WITH_FAULTS_S = 8  # a deadline that allows the endpoint some answers of a second each
_SCHEMA = StructType().add("key", "string").add("value", "string").add("at", "long")


def _parts(records):
    """Yield records in parts, each of which a topic takes as a batch."""
    part, size = [], 0
    for record in records:
        size += len(record.value or b"")
        if part and (len(part) == _BATCH_ROWS or size > _MOST_BYTES // 2):
            yield part
            part, size = [], len(record.value or b"")
        part.append(record)
    if part:
        yield part


class KafkaWriter(Writer):
    """Appends to a partition.

    It keeps the offset of each row, since markers of transactions take offsets between rows.
    """

    def __init__(self, server, topic, partition):
        self.server, self.topic, self.partition = server, topic, partition
        self.offsets, self.end = [], 0

    def append(self, rows):
        records = [
            Record(
                _NO_TIMESTAMP if row.event_time_ms is None else row.event_time_ms,
                row.key.encode(),
                None if row.value is None else row.value.encode(),
            )
            for row in rows
        ]
        Topics(self.server).append(self.topic, *map(encode, _parts(records)), partition=self.partition)
        self.offsets += range(self.end, self.end + len(rows))
        self.end += len(rows)

    def append_bad_record(self):
        Topics(self.server).append(self.topic, encode([Record(_NO_TIMESTAMP)]), partition=self.partition)
        self.end += 1

    def leave_hole(self):
        with closing(
            KafkaProducer(bootstrap_servers=self.server.bootstrap_servers, transactional_id=f"{self.topic}-holes")
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(self.topic, b"aborted", partition=self.partition, timestamp_ms=1).get(60)
            producer.abort_transaction()
        self.end += 2  # the record and the marker
        # The broker confirms that it will write the marker, not that it has.  A row that comes first would take its
        # offset.
        topics = Topics(self.server)
        await_that(lambda: topics.end(self.topic, self.partition, isolation_level="read_committed") == self.end)

    def trim(self, count):
        before = self.offsets[count] if count < len(self.offsets) else self.end
        self.server.delete_before(self.topic, {self.partition: before})


class ArchivedWriter(KafkaWriter):
    """Archives behind the reader's back what was appended before; Kafka keeps what was appended last and next to last.

    So records are only in the archive, in both places, or only in Kafka.
    """

    def __init__(self, place, *partition):
        super().__init__(*partition)
        self.place, self.kept = place, 0

    def append(self, rows):
        archive_topic(self.server, self.topic, self.place)
        before = self.end
        super().append(rows)
        if self.kept:
            delete_before(self.server, self.topic, self.kept, self.partition)
        self.kept = before


class TableWriter(KafkaWriter):
    """Does the same with a Delta table, whose files are rewritten now and then."""

    def __init__(self, table, *partition):
        super().__init__(*partition)
        self.table, self.kept, self.count = table, 0, 0

    def append(self, rows):
        numbers = range(self.partition)
        source = committed_source(self.server, self.topic, bad_event_time="ignore")
        fill(self.table, source, [*(0 for _ in numbers), self.end], [*(0 for _ in numbers), self.kept], parts=1)
        before = self.end
        super().append(rows)
        if self.kept:
            delete_before(self.server, self.topic, self.kept, self.partition)
        self.kept, self.count = before, self.count + 1
        if self.count % 3 == 0:
            self.table.rewrite(sort=self.count % 2 == 0)


class KafkaHarness(Harness):
    """A topic of its own; each split is a partition.

    fails: the test makes the broker fail.
    """

    abilities = (
        Abilities()
        .cannot(Ability.FINITE_SPLITS, "a partition may always grow")
        .cannot(Ability.REMOVABLE_SPLITS, "a topic never has fewer partitions than it had")
        .cannot(Ability.NEGATIVE_TIMES, "a broker refuses timestamps before 1970")
        .cannot({Ability.FAULT_DISCONNECT, Ability.FAULT_CORRUPT}, "no proxy stands at the address that a broker names")
    )
    start_at_end: ClassVar = {"startingOffsets": "latest"}
    writer = KafkaWriter

    def __init__(self, server, *, fails=True):
        self.server, self.topic, self.partitions = server, next(_TOPICS), 0
        self.patience_s = _PATIENCE_WITH_STOPS_S if fails else _PATIENCE_S
        self._folder = TemporaryDirectory()
        self.bad_records = {"badRecordsPath": self._folder.name}

    def source(self, options):
        return KafkaSource.from_options(
            {
                "kafka.bootstrap.servers": self.server.bootstrap_servers,
                "kafka.isolation.level": "read_committed",
                "kafka.default.api.timeout.ms": str(self.patience_s * 1000),
                "subscribe": self.topic,
                "startingOffsets": "earliest",
                **options,
            }
        )

    def create_split(self):
        self.partitions += 1
        if self.partitions == 1:
            self.server.create_topic(self.topic, configs={"max.message.bytes": str(_MOST_BYTES)})
        else:
            self.server.add_partitions(self.topic, self.partitions)
        return self.writer(self.server, self.topic, self.partitions - 1)

    @contextmanager
    def fault(self, kind):
        if kind is Fault.CRASH:
            self.server.kill(1)
            try:
                yield
            finally:
                self.server.restart(1)
        else:
            with _stopped_now_and_then(self.server):
                yield

    def close(self):
        self._folder.cleanup()


class ArchivedHarness(KafkaHarness):
    """A topic whose history moves to an archive while it is read."""

    abilities = KafkaHarness.abilities.cannot(Ability.RETENTION, "what Kafka deletes is in the archive")

    def __init__(self, server, *, fails=True):
        super().__init__(server, fails=fails)
        self.archive = f"{self._folder.name}/archive"
        self.writer = partial(ArchivedWriter, Place(self.archive))

    def source(self, options):
        return super().source({"archive": self.archive, **options})


class TableHarness(ArchivedHarness):
    """A topic whose history moves to a table while it is read."""

    def __init__(self, server, *, fails=True):
        super().__init__(server, fails=fails)
        table = Delta(f"{self._folder.name}/table")
        table.append([])
        self.archive, self.writer = table.location, partial(TableWriter, table)


@contextmanager
def _stopped_now_and_then(server):
    """Stop the broker's process repeatedly, beginning now, so that the first answer is late."""

    def go_and_stop(over):
        while not over.is_set():
            over.wait(1.5)
            os.kill(server.pids[1], signal.SIGCONT)
            over.wait(0.2)
            os.kill(server.pids[1], signal.SIGSTOP)

    os.kill(server.pids[1], signal.SIGSTOP)
    try:
        with meanwhile(go_and_stop):
            yield
    finally:
        os.kill(server.pids[1], signal.SIGCONT)


class S3Writer(Writer):
    """Writes an object with each call of ``append``."""

    def __init__(self, bucket, number):
        self.bucket, self.number, self.objects = bucket, number, itertools.count()

    def append(self, rows):
        lines = [json.dumps({"key": row.key, "value": row.value, "at": row.event_time_ms}) + "\n" for row in rows]
        self._put("".join(lines))

    def append_bad_record(self):
        self._put("{\n")

    def _put(self, text):
        self.bucket.put(f"{self.number}/{next(self.objects):06}.json", text.encode())


class Impatient(S3Source):
    """A source with a deadline of this number of seconds for every operation."""

    deadline_s: float

    @property
    def connection(self):
        return replace(super().connection, deadline_s=self.deadline_s)


class S3Harness(Harness):
    """A bucket of its own; each split is a folder.

    fails: the test makes the endpoint fail.  False: there is no proxy before it, since a proxy slows it down.
    cleans: objects are deleted when they are read.
    """

    abilities = (
        Abilities()
        .cannot(Ability.GROWING_SPLITS, "an object never grows, and each discovery makes a manifest of what is new")
        .cannot(Ability.FINITE_SPLITS, "a manifest is complete from the beginning, without a word of the writer's")
        .cannot(Ability.REMOVABLE_SPLITS, "a manifest goes by itself when it is read")
        .cannot(Ability.RETENTION, "a position is a chunk: an object that is gone is an error of its own")
        .cannot({Ability.HOLES, Ability.ROW_POSITIONS}, "a position is a chunk, which is read whole")
    )
    event_time_column = "at"
    start_at_end: ClassVar = {"includeExistingFiles": "false"}

    def __init__(self, server, *, fails=True, cleans=False):
        self.bucket, self.splits, self.cleans = Bucket(server), itertools.count(), cleans
        self.secrets = (server.secret_key,)
        self.bad_records = {"badRecordsPath": f"s3://{self.bucket.name}/bad"}
        self.patience_s = _PATIENCE_WITH_FAULTS_S if fails else _PATIENCE_S
        self.proxy = faulty(server, slow_s=1.0) if fails else nullcontext(server)
        self.endpoint = self.proxy.__enter__()

    def source(self, options):
        return Impatient.from_options(
            {
                "path": self.bucket.path,
                "fileFormat": "json",
                "recursiveFileLookup": "true",
                "eventTime": "column:at",
                "eventTimeUnit": "ms",
                **self.bucket.options,
                "endpoint": self.endpoint.endpoint,
                "deadlineS": str(self.patience_s),
                "stateLocation": f"s3://{self.bucket.name}/state",
                **({"cleanSource": "delete"} if self.cleans else {}),
                **options,
            }
        ).with_schema(_SCHEMA)

    def create_split(self):
        return S3Writer(self.bucket, next(self.splits))

    @contextmanager
    def fault(self, kind):
        if kind is Fault.CRASH:
            self.bucket.server.kill()
        else:
            self.endpoint.kinds = {Fault.DISCONNECT: ("reset",), Fault.SLOW: ("slow",), Fault.CORRUPT: ("cut",)}[kind]
            self.endpoint.share = 0.5 if kind is Fault.CORRUPT else 1
        try:
            yield
        finally:
            self.endpoint.share = 0
            if kind is Fault.CRASH:
                self.bucket.server.restart()

    def close(self):
        self.proxy.__exit__(None, None, None)
        self.bucket.close()
