"""Measures how fast a topic is archived, and how fast its archive is read.

    python -m benchmarks.kafka.archive [--rows 6000000] [--rounds 5] [--value-bytes 100] [--codecs none zstd]

``tidegate.archive`` is compared with Spark's Kafka source that writes Parquet, partitioned by topic and partition.
Then a batch query reads the same records to Spark's noop sink: from Kafka, and from the archive.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from benchmarks.kafka.throughput import batch_read, fill
from benchmarks.measuring.peers import BUILT_IN, TIDEGATE, built_in_jars, session
from benchmarks.measuring.rounds import by_turns, cpu, ratio, seconds, spread
from tidegate.servers import KafkaServer


def parquet_of(spark: SparkSession, servers: str, topic: str, out: Path) -> None:
    """Write what Spark's users write without tidegate."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "includeHeaders": "true"}
    rows = spark.read.format(BUILT_IN).options(**options).load()
    rows.write.partitionBy("topic", "partition").mode("overwrite").parquet(str(out))


def archive_of(spark: SparkSession, servers: str, topic: str, out: Path) -> None:
    """Archive the whole topic anew."""
    shutil.rmtree(out, ignore_errors=True)
    tidegate.archive(spark, bootstrap_servers=servers, topics=[topic], out=str(out))


def compare(work: str, peer: Callable[[], None], ours: Callable[[], None], rounds: int) -> None:
    """Print the seconds of both by turns, and their ratio."""
    taken = by_turns({"peer": peer, "ours": ours}, rounds)
    both = seconds(taken["peer"]), seconds(taken["ours"])
    print(
        f"{work}: {spread(both[0])}, {spread(both[1])}: {ratio(*both)}\n"
        f"    CPU seconds a run: {cpu(taken['peer'])}; {cpu(taken['ours'])}",
        flush=True,
    )


def main() -> None:
    """Print two lines for each codec."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--codecs", nargs="+", default=("none", "zstd"))
    arguments = parser.parse_args()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        spark = session(settings={**tidegate.session_conf(), "spark.jars": built_in_jars()})
        servers = kafka.bootstrap_servers
        for codec in arguments.codecs:
            topic = f"archive-{codec}"
            kafka.create_topic(topic, arguments.partitions)
            fill(servers, topic, arguments, codec)
            parquet, archive = Path(folder) / "parquet", Path(folder) / "archive"
            compare(
                f"{codec}, Spark's Kafka source to Parquet, tidegate.archive",
                partial(parquet_of, spark, servers, topic, parquet),
                partial(archive_of, spark, servers, topic, archive),
                arguments.rounds,
            )
            sizes = [sum(f.stat().st_size for f in place.rglob("*.parquet")) >> 20 for place in (parquet, archive)]
            print(f"    MiB: {sizes[0]}, {sizes[1]}")
            options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
            both = (batch_read(spark, TIDEGATE, read) for read in (options, {**options, "archive": str(archive)}))
            compare(f"{codec}, read from Kafka, from the archive", *both, arguments.rounds)
        spark.stop()


if __name__ == "__main__":
    main()
