"""Kills a driver that is told of objects by a queue, at random moments while they are added, and compares its output.

python -m tests.sources.s3.kills [--kills 20] [--seed 0]
"""

import argparse
import json
import random
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.sources.kills import ending, kill_while_it_works, log_of, start_module
from tests.support.buckets import Bucket
from tests.support.queues import Queue, QueueServer, s3_body
from tests.support.streams import HOUR, NOON
from tests.support.waiting import await_that, meanwhile
from tidegate.enumerators.s3.notifications.held_messages import HIDDEN_S
from tidegate.servers import S3Server

ROWS = 10  # an object
AT_FIRST, BETWEEN_RUNS, MOST_MEANWHILE = 40, 5, 60
PAUSE_S = 0.1


class Feeder:
    """Adds objects of ROWS rows.  Ids count up over all objects; event times are random within half a day.

    queue: gets a message for each object, and two for some; None: there is no queue.
    """

    def __init__(self, bucket, seed, queue=None):
        self.bucket, self.dice, self.queue, self.objects = bucket, random.Random(seed), queue, 0

    @property
    def ids(self):
        return list(range(self.objects * ROWS))

    def add(self, objects):
        for _ in range(objects):
            hour = NOON + self.dice.randrange(12) * HOUR
            rows = [(self.objects * ROWS + n, hour + self.dice.randrange(HOUR)) for n in range(ROWS)]
            key = f"{self.dice.randrange(1 << 32):08x}-{self.objects}.parquet"
            self.bucket.put_rows(key, rows)
            if self.queue is not None:
                self.queue.send(*[s3_body((self.bucket.name, f"in/{key}"))] * self.dice.choice((1, 1, 2)))
            self.objects += 1

    def adding(self):
        """Add objects all the time, up to a number that a slow machine can read."""

        def add(over):
            for _ in range(MOST_MEANWHILE):
                if over.wait(PAUSE_S):
                    return
                self.add(1)

        return meanwhile(add)


def written(spark, out):
    """Return all ids in the output, in order."""
    return sorted(row["id"] for row in spark.read.parquet(f"{out}/data").select("id").collect())


def holder(out):
    """Return which run holds the state location; None: there is none."""
    try:
        return json.loads(Path(out, "state", "lease.json").read_text())["holder"]
    except FileNotFoundError:
        return None


@contextmanager
def running_with_queue(bucket, queue, out):
    """Run a driver with a queue; it must find again the objects whose messages a killed driver had received."""
    before = holder(out)
    settings = (bucket.path, f"{out}/state", str(out), "--files", "20", "--queue", queue.url)
    driver = start_module("tests.sources.s3.driver", out, *settings, **bucket.server.environment)
    with ending(driver):
        # Not before: SQS may still be answering requests of the killed one.
        await_that(lambda: holder(out) != before, 180, lambda: log_of(out))
        queue.pass_time(HIDDEN_S)
        yield driver


def survive(bucket, queue, spark, out, kills, seed):
    """Kill a driver with a queue a number of times, and return how often it was really killed.

    Raises AssertionError unless the next driver then empties the queue, and the output equals the objects.
    """
    feeder, dice = Feeder(bucket, seed, queue), random.Random(seed)
    feeder.add(AT_FIRST)
    killed = 0
    for _ in range(kills):
        with feeder.adding(), running_with_queue(bucket, queue, out) as driver:
            killed += kill_while_it_works(driver, out, dice)
        feeder.add(BETWEEN_RUNS)
    with running_with_queue(bucket, queue, out):
        await_that(lambda: not len(queue) and len(written(spark, out)) >= len(feeder.ids), 180, lambda: log_of(out))
    assert written(spark, out) == feeder.ids
    return killed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with S3Server() as server, closing(Bucket(server)) as bucket, tempfile.TemporaryDirectory() as out:
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        with QueueServer() as queues:
            killed = survive(bucket, Queue(queues), spark, out, arguments.kills, arguments.seed)
        rows = spark.read.parquet(f"{out}/data").count()
        print(f"killed {killed} times; every one of {rows:,} rows was written exactly once")


if __name__ == "__main__":
    main()
