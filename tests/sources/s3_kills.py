"""Kills the driver, or its executors, at random moments while objects are added, and compares what it wrote.

python -m tests.sources.s3_kills [--kills 20] [--seed 0] [--state-in-bucket] [--executors]
"""

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from tests.buckets import Bucket
from tests.sources.kills import commits, kill_while_it_works, let_end, log_of, start_module
from tests.sources.streams import HOUR, NOON
from tests.waiting import await_that
from tidegate.servers import S3Server

FILES = 5  # a batch
ROWS = 10  # an object
AT_FIRST, BETWEEN_RUNS, MOST_MEANWHILE = 40, 5, 60
PAUSE_S = 0.1
CLUSTER = "local-cluster[2,1,1024]"


class Feeder:
    """Adds objects of ROWS rows, whose ids count up over all and whose event times lie anywhere in half a day."""

    def __init__(self, bucket, seed):
        self.bucket, self.dice, self.objects = bucket, random.Random(seed), 0

    @property
    def ids(self):
        return list(range(self.objects * ROWS))

    def add(self, objects):
        for _ in range(objects):
            hour = NOON + self.dice.randrange(12) * HOUR
            rows = [(self.objects * ROWS + n, hour + self.dice.randrange(HOUR)) for n in range(ROWS)]
            self.bucket.put_rows(f"{self.dice.randrange(1 << 32):08x}-{self.objects}.parquet", rows)
            self.objects += 1

    @contextmanager
    def adding(self):
        """Add objects all the time, up to so many that a slow machine is not buried."""
        over = threading.Event()

        def add():
            for _ in range(MOST_MEANWHILE):
                if over.wait(PAUSE_S):
                    return
                self.add(1)

        thread = threading.Thread(target=add)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def written(spark, out):
    """Return all ids in the output, in order."""
    return sorted(row["id"] for row in spark.read.parquet(f"{out}/data").select("id").collect())


def executors(driver):
    """Return the executors of a driver on a local cluster, by process id."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group == driver.pid and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def survive_without_executors(bucket, spark, out, kills, seed):
    """Kill one executor of a cluster of two so many times, some time after a commit, and return how often.

    Raises AssertionError if the driver ends by it, or unless the output then equals the objects.
    """
    feeder, dice = Feeder(bucket, seed), random.Random(seed)
    settings = (bucket.path, f"{out}/state", str(out))
    environment = bucket.server.environment
    feeder.add(AT_FIRST)
    driver = start_module("tests.sources.s3_driver", out, *settings, str(FILES), CLUSTER, **environment)
    try:
        for _ in range(kills):
            feeder.add(BETWEEN_RUNS)
            before = commits(out)
            await_that(lambda before=before: commits(out) > before, 180, lambda: log_of(out))
            time.sleep(dice.uniform(0, 0.6))  # the random moment itself
            await_that(lambda: executors(driver), 60)
            os.kill(dice.choice(executors(driver)), signal.SIGKILL)
        assert driver.poll() is None, log_of(out)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    let_end(start_module("tests.sources.s3_driver", out, *settings, **environment), out)
    assert written(spark, out) == feeder.ids
    return kills


def survive(bucket, spark, out, kills, seed, *, state=None):
    """Kill the driver so many times, let it end in peace, and return how often it was really killed.

    state: where it keeps what it discovers; None: beside the output.

    Raises AssertionError unless the output then equals the objects.
    """
    feeder, dice = Feeder(bucket, seed), random.Random(seed)
    settings = (bucket.path, state or f"{out}/state", str(out))
    environment = bucket.server.environment
    feeder.add(AT_FIRST)
    killed = 0
    for _ in range(kills):
        with feeder.adding():
            driver = start_module("tests.sources.s3_driver", out, *settings, str(FILES), **environment)
            killed += kill_while_it_works(driver, out, dice)
        feeder.add(BETWEEN_RUNS)
    let_end(start_module("tests.sources.s3_driver", out, *settings, **environment), out)
    assert written(spark, out) == feeder.ids
    return killed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state-in-bucket", action="store_true")
    parser.add_argument("--executors", action="store_true")
    arguments = parser.parse_args()
    with S3Server() as server, closing(Bucket(server)) as bucket, tempfile.TemporaryDirectory() as out:
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        state = f"s3://{bucket.name}/state" if arguments.state_in_bucket else None
        if arguments.executors:
            killed = survive_without_executors(bucket, spark, out, arguments.kills, arguments.seed)
        else:
            killed = survive(bucket, spark, out, arguments.kills, arguments.seed, state=state)
        rows = spark.read.parquet(f"{out}/data").count()
        print(f"killed {killed} times; every one of {rows:,} rows was written exactly once")


if __name__ == "__main__":
    main()
