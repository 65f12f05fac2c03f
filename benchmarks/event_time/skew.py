"""Measures a skewed topic: lost rows, state, and how far any partition runs ahead of the slowest.

The table of the design's first section, with one more way to do it in Spark.  The same windowed count
reads the demonstration's topic (three partitions hold 24 hours, the fourth only the last 2) four times:

- with Spark's built-in source: one watermark for all partitions, the greatest event time minus 10 minutes;
- with one built-in source for each partition, each with its own watermark, and their union: Spark's
  watermark is then the least of them (spark.sql.streaming.multipleWatermarkPolicy=min);
- with tidegate, whose max drift is 1 hour, and then 10 minutes.

    python -m benchmarks.event_time.skew [--rows 600000] [--rounds 1]   # about 2 minutes a round

"Furthest ahead" is the greatest event time that a batch reads, minus the next unread event time of the
slowest partition when the batch begins.  Both are taken from the offsets of each batch, because the order
within a batch is unknown.  The program fails if it is not below the max drift for tidegate.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measuring.batches import STATE_COLUMNS, Measured, most, print_table, run_to_end, state_cells
from benchmarks.measuring.peers import BUILT_IN, session
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.jobs.demo.run import skewed_history
from tidegate.servers import KafkaServer, write_history

TOPIC = "orders"
BATCHES = 16.5  # of the built-in source, as in the demonstration
MINUTE_MS = 60_000
MIN_POLICY = ("spark.sql.streaming.multipleWatermarkPolicy", "min")
COLUMNS = ("", "rows lost", "furthest ahead", *STATE_COLUMNS)


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the topic.

    stream: returns the rows with their watermark.
    max_drift: the max drift that it promises; None: it promises none.
    """

    name: str
    stream: Callable[[], DataFrame]
    max_drift: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """The result of a count.

    ahead_ms: how far the furthest partition was read ahead of the slowest.
    """

    run: Measured
    lost: int
    ahead_ms: int


def readings(spark: SparkSession, servers: str, topic: str, history: Mapping[str, NDArray[np.int64]]) -> list[Reading]:
    """Return the four ways."""
    partitions = len(history)
    per_batch = round(sum(map(len, history.values())) / BATCHES)

    def built_in(which: Mapping[str, str], most_rows: int, delay: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", **which}
        stream = spark.readStream.format(BUILT_IN).options(**options).option("maxOffsetsPerTrigger", most_rows)
        return stream.load().withWatermark("timestamp", delay)

    def one_source() -> DataFrame:
        return built_in({"subscribe": topic}, per_batch, "10 minutes")

    def source_per_partition() -> DataFrame:
        options = [{"assign": json.dumps({topic: [number]})} for number in range(partitions)]
        return reduce(DataFrame.union, [built_in(which, per_batch // partitions, "1 minute") for which in options])

    def aligned(max_drift: timedelta) -> DataFrame:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
        source = KafkaSource(
            bootstrap_servers=servers,
            subscribe=[topic],
            starting_offsets="earliest",
            watermarks=strategy.with_watermark_alignment(max_drift=max_drift),
        )
        return source.read_stream(spark).withWatermark("timestamp", "1 minute")

    drifts = (timedelta(hours=1), timedelta(minutes=10))
    return [
        Reading("Spark's built-in source", one_source),
        Reading("a built-in source per partition, union, min policy", source_per_partition),
        *(Reading(f"tidegate, max drift {drift}", lambda drift=drift: aligned(drift), drift) for drift in drifts),  # type: ignore[misc]
    ]


def count(spark: SparkSession, reading: Reading, history: Mapping[str, NDArray[np.int64]], checkpoint: Path) -> Count:
    """Count the topic by windows of 5 minutes, in append mode."""
    counts = reading.stream().groupBy(f.window("timestamp", "5 minutes")).count()
    run = run_to_end(counts.writeStream.format("memory").queryName("counts").outputMode("append"), checkpoint)
    counted = spark.table("counts").agg(f.sum("count")).first()
    waiting = spark.read.format("statestore").load(str(checkpoint)).agg(f.sum("value.count")).first()
    kept = sum((row and row[0]) or 0 for row in (counted, waiting))
    return Count(run, sum(map(len, history.values())) - kept, furthest_ahead_ms(run, history))


def furthest_ahead_ms(run: Measured, history: Mapping[str, NDArray[np.int64]]) -> int:
    """Return by how much event time any batch read past the slowest partition's next record."""
    furthest = 0
    for batch in run.ranges():
        read = [int(history[split][end - 1]) for split, (start, end) in batch.items() if start < end]
        unread = [int(times[start]) for s, times in history.items() if (start := batch[s][0]) < len(times)]
        if read:
            furthest = max(furthest, max(read) - min(unread))
    return furthest


def row(name: str, counts: list[Count]) -> list[str]:
    """Return a row of the table: the worst of all rounds."""
    return [
        name,
        most([counted.lost for counted in counts]),
        f"{max(counted.ahead_ms for counted in counts) * 100 // MINUTE_MS / 100:,.2f} min",
        *state_cells([counted.run for counted in counts]),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        spark = session()
        spark.conf.set(*MIN_POLICY)
        times = skewed_history(arguments.rows)
        # The first query warms up, on a tenth of the rows.
        histories = [
            laid_down(kafka, topic, counted)
            for topic, counted in (("warm-up", [event_times[::10] for event_times in times]), (TOPIC, times))
        ]
        counts: dict[str, list[Count]] = {}
        for number in range(1 + arguments.rounds):
            topic, history = (TOPIC, histories[1]) if number else ("warm-up", histories[0])
            ways = readings(spark, kafka.bootstrap_servers, topic, history)
            for way in ways[: None if number else 3][:: 1 if number % 2 else -1]:
                with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
                    counted = count(spark, way, history, Path(checkpoint))
                if number:
                    counts.setdefault(way.name, []).append(counted)
        spark.stop()
    print(f"{arguments.rows:,} rows, rounds: {arguments.rounds}")
    print_table(COLUMNS, [row(way.name, counts[way.name]) for way in ways])
    for way in ways:
        ahead = timedelta(milliseconds=max(counted_run.ahead_ms for counted_run in counts[way.name]))
        if way.max_drift is not None and ahead >= way.max_drift:
            raise SystemExit(f"{way.name}: read {ahead} ahead of the slowest partition")


def laid_down(kafka: KafkaServer, topic: str, times: list[NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Write a topic; return the event times of each split."""
    kafka.create_topic(topic, len(times))
    for partition, times_ms in enumerate(times):
        write_history(kafka.bootstrap_servers, topic, partition, times_ms)
    return {f"{topic}-{partition}": times_ms for partition, times_ms in enumerate(times)}


if __name__ == "__main__":
    main()
