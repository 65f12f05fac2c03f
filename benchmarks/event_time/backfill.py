"""The demonstration's query, aligned, against Spark's built-in source at the same rows a batch.

    python -m benchmarks.event_time.backfill [--rows 3300000] [--rounds 5]

Alignment is bounded by the rows of a batch alone, so that both run about as many batches.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measuring.peers import BUILT_IN, TIDEGATE, alternate, session, spread
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.jobs.demo.run import skewed_history
from tidegate.jobs.demo.windowed_count import CountRun, count_by_window
from tidegate.servers import KafkaServer, write_history

TOPIC = "orders"
ROWS_PER_BATCH = 200_000
DELAYS = {BUILT_IN: "10 minutes", TIDEGATE: "1 minute"}


def built_in(spark: SparkSession, servers: str) -> DataFrame:
    """Return the topic as Spark's own source reads it."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return spark.readStream.format(BUILT_IN).options(**options).option("maxOffsetsPerTrigger", ROWS_PER_BATCH).load()


def aligned(spark: SparkSession, servers: str) -> DataFrame:
    """Return the topic in slices of event time with a maximum of rows."""
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[TOPIC],
        starting_offsets="earliest",
        max_offsets_per_trigger=ROWS_PER_BATCH,
        watermarks=WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1)),
    )
    return source.read_stream(spark)


def main() -> None:
    """Print a line per source."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3_300_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        spark = session()
        history = skewed_history(arguments.rows)
        kafka.create_topic(TOPIC, len(history))
        for partition, times_ms in enumerate(history):
            write_history(kafka.bootstrap_servers, TOPIC, partition, times_ms)
        last: dict[str, CountRun] = {}

        def counting(name: str, stream: Callable[[SparkSession, str], DataFrame]) -> Callable[[], None]:
            def run() -> None:
                with tempfile.TemporaryDirectory(dir=folder) as work:
                    rows = stream(spark, kafka.bootstrap_servers)
                    last[name] = count_by_window(
                        spark, rows, name=name, delay=DELAYS[name], rows_in=arguments.rows, work=Path(work)
                    )

            return run

        runs = {BUILT_IN: counting(BUILT_IN, built_in), TIDEGATE: counting(TIDEGATE, aligned)}
        taken = alternate(runs, arguments.rounds)
        for name, run in last.items():
            lost = f"{run.lost:,} of {run.rows_in:,} rows lost"
            print(f"{name:15} {spread(taken[name])}   {lost}   {run.peak_state_rows} state rows at most", end="   ")
            print(f"{sum(batch.rows > 0 for batch in run.batches)} batches with rows")
        print(f"{statistics.median(taken[BUILT_IN]) / statistics.median(taken[TIDEGATE]):.2f}x")
        spark.stop()


if __name__ == "__main__":
    main()
