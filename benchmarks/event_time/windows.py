"""The speed of counting windows, against Spark's own window aggregation over the same source, and against Flink.

Each query counts the rows of tumbling windows of a minute, and adds up a number, by key.  The queries run by turns in
one session, on one topic, to Spark's noop sink.  The first batch of a query does not count.

    python -m benchmarks.event_time.windows [--rows 3000000] [--batch 500000] [--keys 1000 100000] [--rounds 3]
        [--minutes 60] [--partitions 4] [--json]

spark: ``withWatermark`` and ``window`` as anyone would write them.
native: ``tidegate.windowed`` where it plans Spark's own aggregation.
operator: the same with an allowed lateness of one minute, which only the operator has.
flink: the same in Flink, with its state on the heap and without checkpoints, from its first row to the end of its job.

With ``--json`` the records are orders of 100 bytes in JSON, of 1,000 shops, with an order a millisecond in each
partition.  Key, number and event time are fields of them.  Then spark reads Spark's own source with ``from_json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from benchmarks.event_time import flink
from benchmarks.kafka import typed
from benchmarks.measuring.peers import BUILT_IN, FEWER_PROCESSES, TIDEGATE, built_in_jars, session
from benchmarks.measuring.rounds import Measured, by_turns, print_table
from tidegate.servers import KafkaServer, write_history
from tidegate.sources.progress.query import QueryProgress
from tidegate.windows import TumblingEventTimeWindows

BEGIN_MS = 1_700_006_400_000
SIZE = timedelta(minutes=1)
AGGREGATES = {"count": "count(*)", "total": "sum(offset)"}


@dataclass(frozen=True)
class Figures:
    """One run: seconds and rows of its full batches but the first, and the most bytes of state."""

    seconds: float
    rows: int
    state_bytes: int


def spark_s_own(rows: DataFrame) -> DataFrame:
    """Return the windows as anyone would write them."""
    timed = rows.withWatermark("timestamp", "1 second")
    results = [f.expr(text).alias(name) for name, text in AGGREGATES.items()]
    return timed.groupBy("id", f.window("timestamp", "1 minute")).agg(*results)


def native(rows: DataFrame) -> DataFrame:
    """Return the windows that tidegate has Spark keep."""
    return tidegate.windowed(rows, "id", "timestamp").window(TumblingEventTimeWindows.of(SIZE)).aggregate(**AGGREGATES)


def operator(rows: DataFrame) -> DataFrame:
    """Return the windows that tidegate's operator keeps."""
    windows = tidegate.windowed(rows, "id", "timestamp").window(TumblingEventTimeWindows.of(SIZE))
    return windows.allowed_lateness(timedelta(minutes=1)).aggregate(**AGGREGATES)


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {"spark": spark_s_own, "native": native, "operator": operator}
FLINK, TOPIC, CORES = "flink", "windows-{}", 2
ALIGNED = {"endingOffsets": "latest", "maxDrift": "1 hour"}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def write(kafka: KafkaServer, keys: int, arguments: argparse.Namespace) -> None:
    """Write the topic with this number of keys."""
    topic, rows_each = TOPIC.format(keys), arguments.rows // arguments.partitions
    kafka.create_topic(topic, arguments.partitions)
    if arguments.json:
        typed.fill(kafka.bootstrap_servers, topic, arguments.rows, arguments.partitions)
        return
    times = BEGIN_MS + np.linspace(0, arguments.minutes * 60_000, rows_each, endpoint=False).astype(np.int64)
    for partition in range(arguments.partitions):
        of_rows = (np.arange(rows_each) * 7919 + partition * 31) % keys
        write_history(kafka.bootstrap_servers, topic, partition, times, value_size=20, seed=partition, keys=of_rows)


def rows_of(spark: SparkSession, way: str, options: dict[str, str], *, json_values: bool) -> DataFrame:
    """Return the columns ``id``, ``timestamp`` and ``offset`` for a way."""
    if not json_values:
        aligned = spark.readStream.format(TIDEGATE).options(**options, **ALIGNED).load()
        return aligned.withColumnRenamed("key", "id")
    if way == "spark":
        values = typed.parsed(spark.readStream.format(BUILT_IN).options(**options).load())
    else:
        decoded = {"valueFormat": "json", "valueSchema": typed.FIELDS, "columns": "value", "eventTime": "value.at"}
        values = spark.readStream.format(TIDEGATE).options(**options, **ALIGNED, **decoded).load().select("value.*")
    return values.selectExpr("shop AS id", "at AS timestamp", "amount AS offset")


def run(query: DataFrame, batch: int) -> Figures:
    """Run a query over the whole topic."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = query.writeStream.format("noop").option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        progress = [json.loads(batch_progress.json) for batch_progress in running.recentProgress]
    # Spark counts the rows that tasks give to Java, which may be sums.
    ours = [QueryProgress.of(one).source_progress for one in progress]
    planned = [
        (one, sources[0].planned_rows if sources else one["numInputRows"])
        for one, sources in zip(progress, ours, strict=True)
    ]
    full = [(one, rows) for one, rows in planned if rows >= batch * 8 // 10][1:]
    return Figures(
        sum(one["durationMs"]["triggerExecution"] for one, _ in full) / 1000,
        sum(rows for _, rows in full),
        max(
            sum(o["customMetrics"].get("rocksdbSstFileSize", 0) or o["memoryUsedBytes"] for o in one["stateOperators"])
            for one in progress
        ),
    )


def measure(
    spark: SparkSession,
    load: Callable[[str, int], DataFrame],
    job: flink.Flink,
    arguments: argparse.Namespace,
    keys: int,
) -> None:
    """Print a line for each way."""
    provider = spark.conf.get(PROVIDER)

    def run_way(name: str) -> Figures:
        if name == FLINK:
            return Figures(job.seconds(keys), arguments.rows, 0)
        spark.conf.set(PROVIDER, provider)
        return run(WAYS[name](load(name, keys)), arguments.batch)

    taken = by_turns({name: partial(run_way, name) for name in arguments.ways}, arguments.rounds)
    print_table(
        ("keys", "way", "rows/s", f"against {arguments.ways[0]}", "CPU s", "state MiB"),
        [row(keys, name, taken[name], taken[arguments.ways[0]]) for name in arguments.ways],
    )


def row(keys: int, name: str, runs: Sequence[Measured[Figures]], first: Sequence[Measured[Figures]]) -> tuple[str, ...]:
    """Return a line of the table."""
    speed, peer = (statistics.median(one.result.rows / one.result.seconds for one in taken) for taken in (runs, first))
    cpu_s = statistics.median(one.whole_cpu_s for one in runs)
    state = max(one.result.state_bytes for one in runs) / 2**20
    return f"{keys:,}", name, f"{speed:,.0f}", f"{speed / peer:.2f}x", f"{cpu_s:.1f}", f"{state:.1f}"


def main() -> None:
    """Print a table for each number of keys."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=int, default=60, help="of event time in the topic")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ways", nargs="+", default=[*WAYS, FLINK], choices=[*WAYS, FLINK])
    arguments = parser.parse_args()
    all_keys = [typed.SHOPS] if arguments.json else arguments.keys
    with KafkaServer() as kafka:
        # Flink has no checkpoints here, and Spark need not start processes for each file of its own.
        settings = {**tidegate.session_conf(worker_daemon=True), **FEWER_PROCESSES, "spark.jars": built_in_jars()}
        spark = session(CORES, settings={name: str(value) for name, value in settings.items()})
        for keys in all_keys:
            write(kafka, keys, arguments)
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(arguments.batch),
        }

        def load(way: str, keys: int) -> DataFrame:
            of_topic = {**options, "subscribe": TOPIC.format(keys)}
            return rows_of(spark, way, of_topic, json_values=arguments.json)

        records = "json" if arguments.json else "raw"
        with flink.running(records, kafka.bootstrap_servers, TOPIC.format(""), CORES) as job:
            for keys in all_keys:
                measure(spark, load, job, arguments, keys)
        spark.stop()


if __name__ == "__main__":
    main()
