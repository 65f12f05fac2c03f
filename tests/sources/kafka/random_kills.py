"""Kills driver, planner, executors, Python workers, brokers and archivers at random moments, and compares the rows.

python -m tests.sources.kafka.random_kills [--kills 20] [--seed 0] [--master local-cluster[2,1,1024]] [--only KIND ...]
    [--archive]

A query copies a topic of a cluster of three brokers to Parquet, and is started again whenever it has ended.  At each
moment one process is killed with SIGKILL.  A broker is started again before the next kill.  The master "standalone"
starts a master and two workers of Spark; "local[2]" has no executors to kill.

With --archive, the query begins with an archive of the first half, which Kafka has deleted.  The archiver copies the
rest, and Kafka deletes what it has copied, so that the seam moves while the query reads.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.enumerators.kafka.bad_days import start_cluster
from tests.sources.kills import HOURS_A_KILL, ROWS_AN_HOUR, commits, log_of, start_driver, written
from tests.support.archives import archive_topic
from tests.support.command import kill, started
from tests.support.streams import HOUR, NOON, append, even_times, every
from tests.support.waiting import await_that
from tidegate.enumerators.archive.listing import list_partition
from tidegate.jobs.archive import pieces
from tidegate.readers.archive.place import ArchivePlace
from tidegate.servers.spark import MASTER, SparkCluster

KINDS = ("driver", "planner", "executor", "worker", "broker")
ARCHIVER = "archiver"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
TOPIC = "random-kills"
PARTITIONS = 3


def descendants(pid: int) -> dict[int, str]:
    """Return the descendants of a process, even outside of its group, with their command lines."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    commands, left = {}, [pid]
    while left:
        for child in children.get(left.pop(), []):
            left.append(child)
            with suppress(OSError):
                commands[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return commands


def candidates(kind: str, roots: list[int]) -> list[int]:
    """Return the processes of a kind below the driver and the workers of a standalone cluster."""
    below = {pid: line for root in roots for pid, line in descendants(root).items()}
    if kind == "planner":
        return [pid for pid, line in below.items() if "python_streaming_source_runner" in line]
    if kind == "executor":
        return [pid for pid, line in below.items() if "CoarseGrainedExecutorBackend" in line]
    return [pid for pid, line in below.items() if "pyspark.daemon" in line or "pyspark/daemon" in line]


class Run:
    """The driver, started again whenever it has ended.

    killed: how often each kind was killed.
    """

    def __init__(self, kafka, out, master, others, dice, archive):
        self.kafka, self.out, self.master, self.others, self.dice = kafka, out, master, others, dice
        self.archive = archive
        self.driver = None
        self.killed: Counter[str] = Counter()
        self.began_s = time.monotonic()

    def begin(self):
        if self.driver is None or self.driver.poll() is not None:
            place = [] if self.archive is None else [self.archive]
            self.driver = start_driver(self.kafka.bootstrap_servers, TOPIC, self.out, self.master, *place)

    def is_over(self):
        return self.driver is not None and self.driver.poll() == 0

    def strike(self, kind):
        """Kill one process of a kind, some time after the next commit; kill none if there is none at that moment."""
        self.begin()
        before = commits(self.out)
        await_that(lambda: commits(self.out) != before or self.driver.poll() is not None, 240, lambda: log_of(self.out))
        time.sleep(self.dice.uniform(0, 0.6))  # the random moment itself
        if self.is_over():
            return
        if kind == "broker":
            node = self.dice.choice([*self.kafka.pids])
            self.kafka.kill(node)
            time.sleep(self.dice.uniform(0, 3))  # the time for which the broker is away
            self.kafka.restart(node)
        elif kind == ARCHIVER:
            self.kill_archiver()
        elif kind == "driver":
            if self.driver.poll() is not None:
                return
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()
        else:
            victims = candidates(kind, [self.driver.pid, *self.others])
            if not victims:
                return
            with suppress(ProcessLookupError):
                os.kill(self.dice.choice(victims), signal.SIGKILL)
        self.killed[kind] += 1
        print(
            f"{time.monotonic() - self.began_s:7.1f} s: {self.killed.total()}, {kind}, {commits(self.out)} batches",
            flush=True,
        )

    def kill_archiver(self):
        """Kill the archiver at some moment from its start to its end, and delete from Kafka what is archived."""
        place = ArchivePlace(self.archive)
        arguments = (
            "archive",
            "--bootstrap-servers",
            self.kafka.bootstrap_servers,
            "--topic",
            TOPIC,
            "--until",
            "latest",
        )
        with started(*arguments, "--out", self.archive, "--master", "local[1]") as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.dice.uniform(4, 16))
            kill(process)
        ends = {partition: list_partition(place, TOPIC, partition).end for partition in range(PARTITIONS)}
        self.kafka.delete_before(TOPIC, ends)

    def end(self):
        """Let it come to its end."""
        for _ in range(4):
            self.begin()
            if self.driver.wait(600) == 0:
                return
        raise AssertionError(log_of(self.out))

    def close(self):
        if self.driver is not None and self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()


@contextmanager
def cluster_of(master):
    if master == "standalone":
        with SparkCluster() as cluster:
            yield cluster.master_url, [pid for node, pid in cluster.pids.items() if node != MASTER]
    else:
        yield master, []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--master", default=LOCAL_CLUSTER)
    parser.add_argument("--archive", action="store_true")
    parser.add_argument("--only", nargs="*", choices=[*KINDS, ARCHIVER])
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    of_all = [*KINDS, ARCHIVER] if arguments.archive else KINDS
    kinds = [
        kind for kind in arguments.only or of_all if kind != "executor" or not arguments.master.startswith("local[")
    ]
    hours = HOURS_A_KILL * arguments.kills
    counts = [hours * ROWS_AN_HOUR] * 2 + [ROWS_AN_HOUR]
    history = even_times(NOON, NOON + hours * HOUR, counts[0])
    late = even_times(NOON + (hours - 1) * HOUR, NOON + hours * HOUR, counts[2])
    with (
        tempfile.TemporaryDirectory() as out,
        start_cluster() as kafka,
        cluster_of(arguments.master) as (master, workers),
    ):
        kafka.create_topic(TOPIC, PARTITIONS, replicas=(1, 2, 3))
        half = len(history) // 2
        append(kafka, TOPIC, {0: history[:half], 1: history[:half]})
        archive = None
        if arguments.archive:
            archive = f"{out}/archive"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pieces, "OBJECT_BYTES", 1 << 20)
                archive_topic(kafka, TOPIC, ArchivePlace(archive))
            kafka.delete_before(TOPIC, {0: half, 1: half})
        append(kafka, TOPIC, {0: history[half:], 1: history[half:], 2: late})
        run = Run(kafka, out, master, workers, dice, archive)
        try:
            while run.killed.total() < arguments.kills and not run.is_over():
                run.strike(dice.choice(kinds))
            run.end()
        finally:
            run.close()
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        delivered = written(spark, out)
        lost, more = Counter(every(counts)) - Counter(delivered), Counter(delivered) - Counter(every(counts))
        seconds = time.monotonic() - run.began_s
        print(f"killed {run.killed.total()} in {seconds:,.0f} s, {dict(run.killed)}; {commits(out):,} batches")
        print(f"{len(delivered):,} rows, {lost.total()} lost, {more.total()} doubled")
        if lost or more:
            sys.exit(1)


if __name__ == "__main__":
    main()
