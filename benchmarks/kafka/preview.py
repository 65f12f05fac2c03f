"""Compares what ``tidegate preview`` predicts with what Spark's own Kafka source then loses.

    python -m benchmarks.kafka.preview [--rows 3300000] [--skews 5] [--seed 1]

The first topic is that of the demonstration.  Then come random skews: partitions that begin and end at random, with
rates that change, gaps and rows up to half a minute late.  Spark counts windows of 5 minutes with its built-in source.
"Lost with it" is lost with the least delay.  The program fails if a prediction is off by more than 2 %.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import tidegate
from benchmarks.measuring.peers import BUILT_IN, built_in_jars, session
from benchmarks.measuring.rounds import print_table
from tidegate import KafkaSource
from tidegate.jobs.demo.run import skewed_history
from tidegate.jobs.demo.windowed_count import count_by_window
from tidegate.servers import KafkaServer, write_history

BEGIN_MS, DAY_MS = 1_767_225_600_000, 86_400_000
MOST_OFF = 0.02
LEAST_SHARE = 0.001  # of all rows: fewer lost rows are not compared by their share
COLUMNS = ("topic", "rows", "a batch", "delay", "lost", "predicted", "off", "least delay", "lost with it", "seconds")

Partitions = list[NDArray[np.int64]]


def random_skew(rng: np.random.Generator) -> Partitions:
    """Return the event times of some partitions, in the order of their positions."""
    partitions = []
    for _ in range(int(rng.integers(3, 9))):
        begin, end = np.sort(rng.random(2)) * DAY_MS
        shape = rng.beta(*rng.uniform(0.4, 3, 2), int(rng.integers(5_000, 100_000)))
        gap = rng.random()
        shape = np.where(shape > gap, np.minimum(shape + rng.random() * 0.3, 1.3), shape)
        late = rng.integers(0, 30_000, len(shape)) * (rng.random(len(shape)) < 0.2)
        partitions.append((BEGIN_MS + begin + (end - begin) * np.sort(shape) - late).astype(np.int64))
    return partitions


def compared(
    spark: SparkSession, kafka: KafkaServer, name: str, partitions: Partitions, limit: int, delay: timedelta
) -> tuple[list[str], float]:
    """Predict, run, and return the row of the table with the share by which the prediction is off."""
    kafka.create_topic(name, len(partitions))
    for number, times in enumerate(partitions):
        write_history(kafka.bootstrap_servers, name, number, times)
    rows = sum(map(len, partitions))
    source = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=(name,), max_offsets_per_trigger=limit)
    begun = time.perf_counter()
    found = tidegate.preview(source, watermark_delay=delay)
    seconds = time.perf_counter() - begun
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": name,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(limit),
    }

    def lost(delay: timedelta) -> int:
        with tempfile.TemporaryDirectory() as work:
            return count_by_window(
                spark,
                spark.readStream.format(BUILT_IN).options(**options).load(),
                name=name,
                delay=f"{delay // timedelta(milliseconds=1)} milliseconds",
                rows_in=rows,
                work=Path(work) / "checkpoint",
            ).lost

    really = lost(delay)
    off = abs(found.lost_by_spark - really) / max(really, LEAST_SHARE * rows)
    cells = [
        name,
        f"{rows:,}",
        f"{limit:,}",
        str(delay),
        f"{really:,}",
        f"{found.lost_by_spark:,}",
        f"{off:.2%}",
        str(found.least_delay),
        f"{lost(found.least_delay):,}",
        f"{seconds:.1f}",
    ]
    return cells, off


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3_300_000)
    parser.add_argument("--skews", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    topics = {"demonstration": (skewed_history(arguments.rows), round(arguments.rows / 16.5), timedelta(minutes=10))}
    for number in range(arguments.skews):
        partitions = random_skew(rng)
        limit = sum(map(len, partitions)) // int(rng.integers(8, 40))
        topics[f"skew-{number}"] = (partitions, limit, timedelta(minutes=int(rng.integers(0, 90))))
    with KafkaServer() as kafka:
        spark = session(settings={**tidegate.session_conf(), "spark.jars": built_in_jars()})
        results = [compared(spark, kafka, name, *topic) for name, topic in topics.items()]
        spark.stop()
    print_table(COLUMNS, [cells for cells, _ in results])
    if wrong := [cells[0] for cells, off in results if off > MOST_OFF]:
        raise SystemExit(f"predictions are off by more than {MOST_OFF:.0%}: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
