"""Measures how fast a topic is read into Spark, against Spark's built-in Kafka source.

Both read the same topic to Spark's noop sink, by turns in one session.  Each core has a warm Java and
a warm Python worker.

    python -m benchmarks.kafka.throughput [--rows 6000000] [--rounds 7]
        [--stream | --steady | --live] [--value-bytes 100] [--partitions 4] [--headers]
        [--fewer-processes]

Without a mode the topic is read by batch queries.

--stream: streaming queries with Trigger.AvailableNow.  Their start is part of the time.
--steady: streaming queries in batches of 1,000,000 rows.  The time is that of a batch, after the first.
--live: 1,000 rows a second come, for 20 seconds per query.  The time is that of a trigger that reads rows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import tidegate
from benchmarks.measuring.peers import BUILT_IN, FEWER_PROCESSES, TIDEGATE, session
from benchmarks.measuring.rounds import Measured, by_turns, cpu, ratio, spread
from tidegate.jobs.demo.run import built_in_jars
from tidegate.servers import KafkaServer, write_history

CODECS = ("none", "lz4", "zstd")
BEGIN_MS = 1_700_000_000_000
STEADY_ROWS = 1_000_000
LIVE_ROWS_A_SECOND = 1_000
LIVE_S = 20.0

Options = Mapping[str, str]
Mode: TypeAlias = Callable[[SparkSession, str, Options], Callable[[], "list[float] | None"]]


def fill(servers: str, topic: str, arguments: argparse.Namespace, codec: str) -> None:
    """Write the topic: even partitions, one record per millisecond in each."""
    per_partition = arguments.rows // arguments.partitions
    for partition in range(arguments.partitions):
        times = BEGIN_MS + np.arange(per_partition, dtype=np.int64)
        write_history(
            servers,
            topic,
            partition,
            times,
            value_size=arguments.value_bytes,
            compression=codec,
            records_per_batch=max(1, 400_000 // arguments.value_bytes),
            seed=partition,
        )


def batch_read(spark: SparkSession, source: str, options: Options) -> Callable[[], None]:
    """Return a batch query over the whole topic."""

    def run() -> None:
        spark.read.format(source).options(**options).load().write.format("noop").mode("overwrite").save()

    return run


def available_now(spark: SparkSession, source: str, options: Options) -> Callable[[], None]:
    """Return a streaming query over the whole topic, new every time."""

    def run() -> None:
        with streaming(spark, source, {**options, "startingOffsets": "earliest"}, availableNow=True) as query:
            query.awaitTermination()

    return run


def steady_stream(spark: SparkSession, source: str, options: Options) -> Callable[[], list[float]]:
    """Return a streaming query over the whole topic; it returns the seconds of its full batches after the first."""
    limited = {**options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(STEADY_ROWS)}

    def run() -> list[float]:
        with streaming(spark, source, limited) as query:
            query.processAllAvailable()
            return seconds_of(query, STEADY_ROWS * 9 // 10)[1:]  # a common event time may take some rows less

    return run


def live_stream(spark: SparkSession, source: str, options: Options) -> Callable[[], list[float]]:
    """Return a streaming query over rows that come now; it returns the seconds of its triggers after the first."""

    def run() -> list[float]:
        with streaming(spark, source, options) as query:
            query.awaitTermination(LIVE_S)  # it ends only by an error
            return seconds_of(query, 1)[1:]

    return run


@contextmanager
def streaming(spark: SparkSession, source: str, options: Options, **trigger: bool) -> Iterator[StreamingQuery]:
    """Start a query to the noop sink, and stop it at the end."""
    frame = spark.readStream.format(source).options(**options).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = (writer.trigger(availableNow=True) if trigger else writer).start()
        try:
            yield query
        finally:
            query.stop()


def seconds_of(query: StreamingQuery, least_rows: int) -> list[float]:
    """Return the seconds of the batches with at least ``least_rows``, from their trigger to their commit."""
    return [
        entry.durationMs["triggerExecution"] / 1000
        for entry in query.recentProgress
        if entry.numInputRows >= least_rows
    ]


@contextmanager
def trickle(servers: str, topic: str, partitions: int) -> Iterator[None]:
    """Let rows come evenly, from another process."""
    script = (
        "import os, sys, time\n"
        "from kafka import KafkaProducer\n"
        "servers, topic, partitions, a_second = *sys.argv[1:3], *map(int, sys.argv[3:])\n"
        "producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)\n"
        "begun, sent, parent = time.monotonic(), 0, os.getppid()\n"
        "while os.getppid() == parent:\n"  # or it would collect rows for a broker that is gone
        "    while sent < (time.monotonic() - begun) * a_second:\n"
        "        producer.send(topic, bytes(100), partition=sent % partitions)\n"
        "        sent += 1\n"
        "    time.sleep(0.005)  # the pace of the rows itself\n"
    )
    arguments = [servers, topic, str(partitions), str(LIVE_ROWS_A_SECOND)]
    with subprocess.Popen([sys.executable, "-c", script, *arguments]) as producer:
        try:
            yield
        finally:
            producer.terminate()


def measured(
    spark: SparkSession, servers: str, topic: str, arguments: argparse.Namespace
) -> dict[str, list[Measured[list[float] | None]]]:
    """Return the runs of the mode, for both sources."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    if arguments.headers:
        options["includeHeaders"] = "true"
    modes: dict[Mode, bool] = {
        live_stream: arguments.live,
        steady_stream: arguments.steady,
        available_now: arguments.stream,
    }
    reading = next((mode for mode, is_wanted in modes.items() if is_wanted), batch_read)
    runs = {source: reading(spark, source, options) for source in (BUILT_IN, TIDEGATE)}
    with trickle(servers, topic, arguments.partitions) if arguments.live else nullcontext():
        return by_turns(runs, arguments.rounds)


def seconds_of_all(runs: Sequence[Measured[list[float] | None]]) -> list[float]:
    """Return the seconds that the mode measures: of batches, or of whole runs."""
    return [seconds for run in runs for seconds in ([run.seconds] if run.result is None else run.result)]


def main() -> None:
    """Print a line per codec."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    modes = parser.add_mutually_exclusive_group()
    for mode in ("stream", "steady", "live"):
        modes.add_argument(f"--{mode}", action="store_true")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--headers", action="store_true", help="deliver the column of headers, too")
    parser.add_argument("--plain", action="store_true", help="without tidegate.session_conf()")
    parser.add_argument("--fewer-processes", action="store_true", help="for the files of the checkpoint")
    parser.add_argument("--codecs", nargs="+", default=CODECS, choices=("none", "gzip", "snappy", "lz4", "zstd"))
    arguments = parser.parse_args()
    with KafkaServer() as kafka:
        settings = tidegate.session_conf()
        if arguments.plain:
            settings = {"spark.python.unix.domain.socket.enabled": "false"}  # register would set it
        if arguments.fewer_processes:
            settings = {**settings, **FEWER_PROCESSES}
        spark = session(settings={**settings, "spark.jars": built_in_jars()})
        print(
            f"{arguments.rows:,} records of {arguments.value_bytes} bytes, {arguments.partitions} partitions, "
            f"{arguments.rounds} rounds"
        )
        for codec in arguments.codecs[:1] if arguments.live else arguments.codecs:
            topic = f"throughput-{codec}"
            kafka.create_topic(topic, arguments.partitions)
            if not arguments.live:
                fill(kafka.bootstrap_servers, topic, arguments, codec)
            runs = measured(spark, kafka.bootstrap_servers, topic, arguments)
            peer, ours = map(seconds_of_all, (runs[BUILT_IN], runs[TIDEGATE]))
            print(
                f"{codec:7} built-in {spread(peer)}   tidegate {spread(ours)}   {ratio(peer, ours)}\n"
                f"        CPU seconds a run: built-in {cpu(runs[BUILT_IN])}; tidegate {cpu(runs[TIDEGATE])}",
                flush=True,
            )
        spark.stop()


if __name__ == "__main__":
    main()
