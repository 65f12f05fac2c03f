"""Measures how fast a topic is read from its archive, in each of its kinds, against the same topic in Kafka.

tidegate reads all of them, by batch queries to Spark's noop sink, by turns in one session.  Kafka keeps all records,
and what is in both places comes from the archive.

    python -m benchmarks.kafka.archives [--rows 6000000] [--rounds 5] [--value-bytes 100] [--partitions 4]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import tidegate
from benchmarks.kafka.throughput import batch_read, fill
from benchmarks.measuring.peers import TIDEGATE, session
from benchmarks.measuring.rounds import by_turns, cpu, ratio, seconds, spread
from tidegate.servers import KafkaServer

TOPIC = "archives"


def catalog(folder: Path) -> None:
    """Let pyiceberg know a catalog in a folder."""
    folder.mkdir()
    named = {"TYPE": "sql", "URI": f"sqlite:///{folder}/catalog.db", "WAREHOUSE": f"file://{folder}"}
    os.environ |= {f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in named.items()}


def main() -> None:
    """Print a line per kind of archive."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    arguments = parser.parse_args()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        catalog(Path(folder) / "iceberg")
        places = (f"{folder}/objects", f"delta:{folder}/delta", "iceberg:lake.bronze.orders")
        spark = session(settings=tidegate.session_conf())
        tidegate.register(spark)
        kafka.create_topic(TOPIC, arguments.partitions)
        fill(kafka.bootstrap_servers, TOPIC, arguments, "none")
        for place in places:
            tidegate.archive(spark, bootstrap_servers=kafka.bootstrap_servers, topics=TOPIC, out=place)
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": TOPIC}
        runs = {"Kafka": batch_read(spark, TIDEGATE, options)}
        runs |= {place: batch_read(spark, TIDEGATE, {**options, "archive": place}) for place in places}
        taken = by_turns(runs, arguments.rounds)
        peer = seconds(taken["Kafka"])
        for name, measured in taken.items():
            print(f"{name:40} {spread(seconds(measured))}   {ratio(peer, seconds(measured))}   CPU: {cpu(measured)}")
        spark.stop()


if __name__ == "__main__":
    main()
