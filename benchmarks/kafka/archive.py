"""Measures how fast a topic is archived, how fast its archive is read, and how long plans over many objects take.

    python -m benchmarks.kafka.archive [--rows 6000000] [--rounds 5] [--value-bytes 100] [--codecs none zstd] [--bucket]
    python -m benchmarks.kafka.archive --objects 100000

``tidegate.archive`` is compared with Spark's Kafka source that writes Parquet, partitioned by topic and partition.
Then a batch query reads the same records to Spark's noop sink: from Kafka, and from the archive.  With ``--bucket``, it
reads the archive of a bucket, and nothing else is measured.

With ``--objects``, a coordinator in this process plans a back-fill over a bucket with an object for each hour of 8
partitions, in slices of 30 days.  A plan begins with the listing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import tidegate
from benchmarks.kafka.throughput import batch_read, fill
from benchmarks.measuring.peers import BUILT_IN, TIDEGATE, built_in_jars, session
from benchmarks.measuring.rounds import by_turns, cpu, ratio, seconds, spread
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.enumerators.archive.listing import directories_of
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.write import write_object
from tidegate.readers.kafka.schema import arrow_schema
from tidegate.readers.places.place import Place
from tidegate.servers import KafkaServer, S3Server, write_history

BEGIN_MS, HOUR_MS = 1_500_000_000_000, 3_600_000
PARTITIONS = 8
KEPT = 100  # records of each partition in Kafka


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


def compare_reading(spark: SparkSession, servers: str, topic: str, archive: dict[str, str], rounds: int) -> None:
    """Compare a query over Kafka with one over the archive."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    both = (batch_read(spark, TIDEGATE, read) for read in (options, {**options, **archive}))
    compare(f"{topic}, read from Kafka, from the archive", *both, rounds)


def compare_bucket(arguments: argparse.Namespace) -> None:
    """Compare Kafka with the archive of a bucket."""
    with KafkaServer() as kafka, S3Server() as s3:
        lake = str(s3.create_bucket("lake"))
        names = {"endpoint": s3.endpoint, "region": s3.region, "accessKey": s3.access_key, "secretKey": s3.secret_key}
        variables = ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        os.environ.update(zip(variables, names.values(), strict=True))
        spark = session(settings=tidegate.session_conf())
        for codec in arguments.codecs:
            topic = f"bucket-{codec}"
            kafka.create_topic(topic, arguments.partitions)
            fill(kafka.bootstrap_servers, topic, arguments, codec)
            tidegate.archive(spark, bootstrap_servers=kafka.bootstrap_servers, topics=[topic], out=lake)
            archive = {"archive": lake, **{f"archive.{name}": value for name, value in names.items()}}
            compare_reading(spark, kafka.bootstrap_servers, topic, archive, arguments.rounds)
        spark.stop()


def fill_archive(place: Place, topic: str, partition: int, times: list[int]) -> None:
    """Write an object for each record."""
    schema = arrow_schema(include_headers=True)
    for offset, time_ms in enumerate(times):
        row = {"value": b"v", "topic": topic, "partition": partition, "offset": offset, "timestampType": 0}
        batch = pa.RecordBatch.from_pylist([{**row, "timestamp": time_ms * 1000}], schema=schema)
        write_object(place, ArchivedObject(f"{topic}/{partition}", 0, offset, offset + 1, -1, -1, ""), schema, [batch])


def plans_over(objects: int) -> None:
    """Print the seconds of a listing, and of plans that begin with one."""
    times = [BEGIN_MS + number * HOUR_MS for number in range(objects // PARTITIONS)]
    with KafkaServer() as kafka, S3Server() as s3:
        kafka.create_topic("orders", PARTITIONS)
        lake = s3.create_bucket("lake")
        for partition in range(PARTITIONS):
            write_history(kafka.bootstrap_servers, "orders", partition, np.array(times))
            fill_archive(Place(str(lake)), "orders", partition, times)
        kafka.delete_before("orders", dict.fromkeys(range(PARTITIONS), len(times) - KEPT))
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
        source = KafkaSource(
            bootstrap_servers=kafka.bootstrap_servers,
            subscribe=["orders"],
            starting_offsets="earliest",
            watermarks=strategy.with_watermark_alignment(max_drift=timedelta(days=30)),
            archive="s3://lake",
            archive_endpoint=s3.endpoint,
            archive_region=s3.region,
            archive_access_key=s3.access_key,
            archive_secret_key=s3.secret_key,
        )
        partitions = [("orders", number) for number in range(PARTITIONS)]
        timed("listing", partial(directories_of, source.archived, partitions))
        settings = CoordinatorSettings(source.watermarks)
        with closing(SourceCoordinator("kafka", source.enumerator, settings, cores=2)) as run:
            end = timed("first plan, listing included", partial(run.latest_offset, INITIAL_OFFSET))
            for _ in range(3):
                end = timed("later plan", partial(run.latest_offset, end))


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Print the seconds of some work, and return what it returns."""
    begun, cpu = time.perf_counter(), time.process_time()
    done = work()
    print(f"{name}: {time.perf_counter() - begun:.2f} s, CPU {time.process_time() - cpu:.2f} s", flush=True)
    return done


def main() -> None:
    """Print two lines for each codec, or the seconds of plans."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=int, help="plan over this many objects instead")
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--codecs", nargs="+", default=("none", "zstd"))
    parser.add_argument("--bucket", action="store_true", help="read the archive of a bucket instead")
    arguments = parser.parse_args()
    if arguments.bucket:
        compare_bucket(arguments)
        return
    if arguments.objects is not None:
        plans_over(arguments.objects)
        return
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
            compare_reading(spark, servers, topic, {"archive": str(archive)}, arguments.rounds)
        spark.stop()


if __name__ == "__main__":
    main()
