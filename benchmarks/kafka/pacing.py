"""Measures how soon batches that size themselves are back at their target after the sink slows down five times.

``targetBatchDuration`` is 2 s.  The sink forces each batch and then sleeps for each of its rows, midway
five times as long.  A batch that was planned before that cannot be any shorter; those after it can.

    python -m benchmarks.kafka.pacing [--repeats 3]

Goal: at most 3 batches after the one that met the slow sink, one is within 30 % of the target.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from benchmarks.measuring.peers import session
from tidegate import KafkaSource
from tidegate.jobs.follow import follow
from tidegate.servers import KafkaServer, write_history
from tidegate.sources.progress.query import QueryProgress

TOPIC = "orders"
PARTITIONS = 4
ROWS = 400_000
BEGIN_MS = 1_767_225_600_000
TARGET = timedelta(seconds=2)
TOLERANCE = 0.3
SLOWDOWN = 5
SLOWS_AT, BATCHES = 10, 20
GOAL = 3


class SlowingSink:
    """Takes ``rows_per_second``, from batch ``SLOWS_AT`` on a fifth of it, and after ``batches`` nothing."""

    def __init__(self, rows_per_second: int, batches: int) -> None:
        self._rows_per_second, self.batches = rows_per_second, batches

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Force the batch, and sleep; what comes after the measurement only ends the query soon."""
        if number >= self.batches:
            return
        seen = Observation()
        batch.observe(seen, f.count(f.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
        slower = SLOWDOWN if number >= SLOWS_AT else 1
        # The sink's work itself: it takes so long for its rows, whatever else the machine does.
        time.sleep(seen.get["rows"] * slower / self._rows_per_second)


def run_once(spark: SparkSession, servers: str, sink: SlowingSink) -> list[QueryProgress]:
    """Return the batches of a new query for which the sink slept."""
    source = KafkaSource(
        bootstrap_servers=servers, subscribe=[TOPIC], starting_offsets="earliest", target_batch_duration=TARGET
    )
    with tempfile.TemporaryDirectory() as folder:
        query = source.read_stream(spark).writeStream.foreachBatch(sink)
        query = query.option("checkpointLocation", str(Path(folder))).trigger(availableNow=True)
        return list(follow(spark, query.start))[: sink.batches]


def is_near(batch: QueryProgress) -> bool:
    """Whether a batch took its target, within the tolerance."""
    target_s = TARGET.total_seconds()
    return abs(batch.seconds - target_s) <= TOLERANCE * target_s


def batches_until_back(batches: list[QueryProgress]) -> int | None:
    """Return the number of batches from the one that met the slow sink to the first near the target; None: none is."""
    return next((number for number, batch in enumerate(batches[SLOWS_AT + 1 :], start=1) if is_near(batch)), None)


def main() -> None:
    """Print a line per batch, and the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows-per-second", type=int, default=10_000)
    arguments = parser.parse_args()
    back: list[int | None] = []
    near: list[int] = []
    with KafkaServer() as kafka:
        spark = session()
        kafka.create_topic(TOPIC, PARTITIONS)
        times = BEGIN_MS + np.arange(ROWS // PARTITIONS, dtype=np.int64)
        for partition in range(PARTITIONS):
            write_history(kafka.bootstrap_servers, TOPIC, partition, times)
        # A session's first batches take seconds more than their rows do.
        run_once(spark, kafka.bootstrap_servers, SlowingSink(arguments.rows_per_second, 3))
        for repeat in range(arguments.repeats):
            batches = run_once(spark, kafka.bootstrap_servers, SlowingSink(arguments.rows_per_second, BATCHES))
            for batch in batches:
                remark = "the sink slows down" if batch.number == SLOWS_AT else "" if is_near(batch) else "off target"
                print(f"{repeat} {batch.number:3} {batch.rows:7,} rows {batch.seconds:6.2f} s  {remark}", flush=True)
            back.append(batches_until_back(batches))
            near.append(sum(map(is_near, batches[SLOWS_AT + 1 + (back[-1] or 0) :])))
        spark.stop()
    print(f"batches until one is within {TOLERANCE:.0%} of the target again: {', '.join(map(str, back))}")
    print(f"of those after it, within {TOLERANCE:.0%}: {', '.join(map(str, near))}")
    if any(number is None or number > GOAL for number in back):
        raise SystemExit(f"the goal is {GOAL}, the median is {statistics.median(value or BATCHES for value in back):g}")


if __name__ == "__main__":
    main()
