"""What programs that kill drivers have in common: topics and objects, drivers, random moments, and what was written."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np
from kafka import KafkaProducer

from tests.sources.killable import commits
from tests.support.command import PATIENCE_S, await_that, meanwhile
from tests.support.streams import HOUR, NOON, even_times, every, new_topic
from tidegate.servers.history import encode_batch, write_batches

ROWS_AN_HOUR = 1_000
BAD_EVERY = 7  # of the last partition's records, one has no event time
NO_JSON_EVERY = 11  # of each partition's records, one has a value that cannot be decoded


def start_module(module, out, *arguments, **environment):
    """Start a driver in a process group of its own, its Java included; its log is in ``out``."""
    with (Path(out) / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=log,
            stderr=log,
            env={**os.environ, "SPARK_SUBMIT_OPTS": "", **environment},  # it commits as the Spark of users does
            start_new_session=True,
        )


def await_commits(driver, out, folders, dice):
    """Wait some time beyond the next commit of the query of each folder, or until the driver has ended.

    out: the folder with the driver's log.
    """
    before = [commits(folder) for folder in folders]

    def have_committed():
        return all(commits(folder) != old for folder, old in zip(folders, before, strict=True))

    await_that(lambda: have_committed() or driver.poll() is not None, state=lambda: log_of(out))
    time.sleep(dice.uniform(0, 0.6))  # the random moment itself


def written_before_the_commit(out):
    """Return the number of the batch that the file sink has and Spark's commit log has not, in a list; or none."""
    number = commits(out)
    return [number] if Path(out, "data", "_spark_metadata", str(number)).exists() else []


@contextmanager
def ending(driver):
    """Kill the driver at the end, if it still runs."""
    try:
        yield
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def kill_while_it_works(driver, out, dice, folders=None):
    """Kill the driver some time after its next commit; return whether it still ran.

    folders: the folders of its queries, each of which must commit; None: it has one query, in ``out``.
    """
    with ending(driver):
        await_commits(driver, out, folders or [out], dice)
        return driver.poll() is None


def log_of(out):
    return Path(out, "driver.log").read_text()[-3000:]


def let_end(driver, out):
    """Let the driver end in peace."""
    assert driver.wait(PATIENCE_S) == 0, log_of(out)


def written(spark, out):
    """Return all records in the output, as sorted (partition, offset); values that are JSON hold the same offset."""
    rows = spark.read.parquet(f"{out}/data").select("partition", "offset", "value.n").collect()
    assert all(row["n"] == (row["offset"] if row["offset"] % NO_JSON_EVERY else None) for row in rows)
    return sorted((row["partition"], row["offset"]) for row in rows)


def skewed_topic(kafka, hours):
    """Return a topic of a number of hours, and the rows of each partition; one partition has only the last hour.

    Values are JSON, but for some of them.  Some rows of the last partition have no event time.
    """
    counts = [hours * ROWS_AN_HOUR] * 2 + [ROWS_AN_HOUR]
    history = even_times(NOON, NOON + hours * HOUR, counts[0])
    late = even_times(NOON + (hours - 1) * HOUR, NOON + hours * HOUR, counts[2])
    late[::BAD_EVERY] = -1
    topic = new_topic(kafka, [], [], [])
    parts = [
        (partition, encode_batch(times[at : at + ROWS_AN_HOUR], values(at), "none"))
        for partition, times in enumerate((history, history, late))
        for at in range(0, len(times), ROWS_AN_HOUR)
    ]
    write_batches(kafka.bootstrap_servers, topic, parts)
    return topic, counts


def values(begin):
    """Return the values of an hour's records from an offset on, as bytes of one length each."""
    texts = [
        "no JSON".ljust(16) if offset % NO_JSON_EVERY == 0 else f'{{"n":{offset:>10}}}'
        for offset in range(begin, begin + ROWS_AN_HOUR)
    ]
    return np.frombuffer("".join(texts).encode(), np.uint8).reshape(ROWS_AN_HOUR, 16)


def judge_written(spark, out, counts, *, permissive=False):
    """Raise AssertionError unless the output and the bad records are those of a ``skewed_topic``.

    permissive: the query got the bad ones, too.
    """
    records = every(counts)
    if permissive:
        assert written(spark, out) == records
        return
    bad = [(p, offset) for p, offset in records if offset % NO_JSON_EVERY == 0 or (p == 2 and offset % BAD_EVERY == 0)]
    assert written(spark, out) == sorted({*records} - {*bad})
    assert sorted(set_aside(out)) == bad


def set_aside(out):
    """Return all records in the files of bad records, as (partition, offset)."""
    lines = (json.loads(line) for file in Path(out, "bad").iterdir() for line in file.read_text().splitlines())
    return [(line["partition"], line["offset"]) for line in lines]


HEADER = "complete"
SIZE = timedelta(minutes=1)
MARKED_PARTITIONS, ROWS_A_WINDOW = 2, 20
_SIZE_MS = SIZE // timedelta(milliseconds=1)


def marked_topic(kafka, windows):
    """Return a topic with a number of windows; the last window is never complete in the last partition.

    The rows of a window are mixed with those of the next window, and the mark of the first comes after both.
    """
    topic, dice = new_topic(kafka, *([] for _ in range(MARKED_PARTITIONS))), random.Random(0)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=50)
    for partition in range(MARKED_PARTITIONS):
        late = []
        for window in range(windows):
            start_ms = NOON + window * _SIZE_MS
            times = [start_ms + dice.randrange(_SIZE_MS) for _ in range(ROWS_A_WINDOW)]
            now, waiting = late + times[:10], times[10:]
            dice.shuffle(now)
            for time_ms in now:
                producer.send(topic, b"row", partition=partition, timestamp_ms=time_ms)
            if window:
                _mark(producer, topic, partition, start_ms)
            late = waiting
        for time_ms in late:
            producer.send(topic, b"row", partition=partition, timestamp_ms=time_ms)
        if partition < MARKED_PARTITIONS - 1:
            _mark(producer, topic, partition, NOON + windows * _SIZE_MS)
    producer.close()
    return topic


def complete_windows(windows):
    """Return the windows that close, as (partition, start in seconds, rows with their marks)."""
    return [
        (partition, (NOON + window * _SIZE_MS) / 1000, ROWS_A_WINDOW)
        for partition in range(MARKED_PARTITIONS)
        for window in range(windows - 1)
    ]


def closed(spark, out):
    """Return all windows in the output, as sorted (partition, start in seconds, rows)."""
    rows = spark.read.parquet(f"{out}/data").collect()
    return sorted((row["partition"], row["window_start"].timestamp(), row["rows"]) for row in rows)


def _mark(producer, topic, partition, end_ms):
    """Mark that all rows before a time have come; the mark itself is in the year 1970, in no window of rows."""
    headers = [(HEADER, str(end_ms - 1).encode())]
    producer.send(topic, None, key=b"mark", partition=partition, timestamp_ms=1, headers=headers)


ROWS = 10  # of an object
AT_FIRST, BETWEEN_RUNS, MOST_MEANWHILE = 40, 25, 60
PAUSE_S = 0.1


class Feeder:
    """Adds objects of ROWS rows.  Ids count up over all objects; event times are random within half a day."""

    def __init__(self, bucket, seed):
        self.bucket, self.dice, self.objects = bucket, random.Random(seed), 0

    @property
    def ids(self):
        return list(range(self.objects * ROWS))

    def add(self, objects):
        for _ in range(objects):
            hour = NOON + self.dice.randrange(12) * HOUR
            rows = [(self.objects * ROWS + n, hour + self.dice.randrange(HOUR)) for n in range(ROWS)]
            key = f"{self.dice.randrange(1 << 32):08x}-{self.objects}.parquet"
            self.bucket.put_rows(key, rows)
            self.objects += 1

    def adding(self):
        """Add objects all the time, up to a number that a slow machine can read."""

        def add(over):
            for _ in range(MOST_MEANWHILE):
                if over.wait(PAUSE_S):
                    return
                self.add(1)

        return meanwhile(add)


def written_ids(spark, out):
    """Return all ids in the output, in order."""
    return sorted(row["id"] for row in spark.read.parquet(f"{out}/data").select("id").collect())
