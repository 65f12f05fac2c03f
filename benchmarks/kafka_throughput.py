"""How fast a topic is read into Spark, against Spark's built-in Kafka source.

Both read the same topic to Spark's noop sink, by turns in one session, each core of which has a
warm Java and a warm Python worker.

    python -m benchmarks.kafka_throughput [--rows 6000000] [--rounds 7] [--stream]

With ``--stream`` the topic is read by streaming queries with Trigger.AvailableNow, whose start is
part of the time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.peers import BUILT_IN, TIDEGATE, alternate, session, spread
from tidegate.servers import KafkaServer, write_history

PARTITIONS = 4
VALUE_BYTES = 100
CODECS = ("none", "lz4", "zstd")
BEGIN_MS = 1_700_000_000_000


def fill(servers: str, topic: str, rows: int, codec: str) -> None:
    """Write the topic: even partitions, one record per millisecond in each."""
    each = rows // PARTITIONS
    for partition in range(PARTITIONS):
        times = BEGIN_MS + np.arange(each, dtype=np.int64)
        write_history(servers, topic, partition, times, value_size=VALUE_BYTES, compression=codec, seed=partition)


def batch_read(spark: SparkSession, source: str, options: dict[str, str]) -> Callable[[], None]:
    """Return a batch query over the whole topic."""

    def run() -> None:
        spark.read.format(source).options(**options).load().write.format("noop").mode("overwrite").save()

    return run


def stream_read(spark: SparkSession, source: str, options: dict[str, str]) -> Callable[[], None]:
    """Return a streaming query over the whole topic, new every time."""

    def run() -> None:
        frame = spark.readStream.format(source).options(**options).option("startingOffsets", "earliest").load()
        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                frame.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

    return run


def main() -> None:
    """Print a line per codec."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--codecs", nargs="+", default=CODECS, choices=("none", "gzip", "snappy", "lz4", "zstd"))
    arguments = parser.parse_args()
    reading = stream_read if arguments.stream else batch_read
    with KafkaServer() as kafka:
        spark = session()
        print(f"{arguments.rows:,} records of {VALUE_BYTES} bytes, {PARTITIONS} partitions, {arguments.rounds} rounds")
        for codec in arguments.codecs:
            topic = f"throughput-{codec}"
            kafka.create_topic(topic, PARTITIONS)
            fill(kafka.bootstrap_servers, topic, arguments.rows, codec)
            options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
            taken = alternate({s: reading(spark, s, options) for s in (BUILT_IN, TIDEGATE)}, arguments.rounds)
            ratio = statistics.median(taken[BUILT_IN]) / statistics.median(taken[TIDEGATE])
            print(
                f"{codec:7} built-in {spread(taken[BUILT_IN])}   tidegate {spread(taken[TIDEGATE])}   {ratio:.2f}x",
                flush=True,
            )
        spark.stop()


if __name__ == "__main__":
    main()
