"""Measures how fast objects are read into Spark, against Spark's file source over Hadoop's S3 file system (s3a).

Both read the same objects of one real S3 endpoint to Spark's noop sink, as the same given columns.  They run by turns
in one session, with a warm Java and a warm Python worker for each core.

    python -m benchmarks.s3.throughput [--rounds 5] [--scale 1] [--cases parquet-small ...]
        [--event-time lastModified] [--conf NAME=VALUE ...]

Large objects have 64 MB, 2 GB in all.  Small ones have 10 KB, 100 MB in all.  ``--scale 0.25`` makes a
quarter as many.  Rows have some 50 bytes in Parquet and 130 in JSON, and 1 KB in the wide cases.  With
``--event-time column:at`` all objects are surveyed before they are read.  ``--conf`` sets Spark's settings for
both sides.  CPU seconds are those of Spark's Java and its Python workers, without the endpoint's.
The jars of s3a have 690 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measuring.peers import s3a_jars, session
from benchmarks.measuring.rounds import by_turns, print_table, ratio, seconds, spread
from tidegate.servers import S3Server

SPARK, TIDEGATE, BUCKET = "Spark", "tidegate", "bucket"
SCHEMA = "id long, at timestamp, user long, kind string, amount double, note string"
FIRST_US = 1_767_225_600_000_000
LARGE, SMALL = 64 << 20, 10 << 10
IN_A_FOLDER = 500  # a listing of S3Proxy takes a time that grows with the square of this
CONTENTS = 4  # different objects; all others are links to these
COLUMNS = ("", "Spark over s3a", "tidegate", "ratio", "CPU seconds")


@dataclass(frozen=True, slots=True)
class Case:
    """Objects of one format and size.

    object_bytes: the approximate size of each object.  total_bytes: that of all objects, if nothing is scaled.
    note_bytes: the size of the text in each row; even.
    """

    file_format: str
    object_bytes: int
    total_bytes: int
    note_bytes: int = 32

    def count(self, scale: float) -> int:
        """Return how many objects there are."""
        return max(2, round(self.total_bytes * scale / self.object_bytes))


CASES = {
    "parquet-large": Case("parquet", LARGE, 2 << 30),
    "json-large": Case("json", LARGE, 2 << 30),
    "parquet-wide": Case("parquet", LARGE, 2 << 30, 1024),
    "json-wide": Case("json", LARGE, 2 << 30, 1024),
    "parquet-small": Case("parquet", SMALL, 100 << 20),
    "json-small": Case("json", SMALL, 100 << 20),
}


def table(rows: int, seed: int, note_bytes: int) -> pa.Table:
    """Return events of some users: numbers, a few kinds, and a text that no codec makes much smaller."""
    dice = np.random.default_rng(seed)
    text = dice.bytes(note_bytes // 2 * rows).hex()
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64) + seed * 10**9,
            "at": pa.array(FIRST_US + 1_000 * np.arange(rows, dtype=np.int64), pa.timestamp("us", "UTC")),
            "user": dice.integers(0, 10**6, rows),
            "kind": np.array(["view", "click", "order", "return", "search"])[dice.integers(0, 5, rows)],
            "amount": np.round(dice.gamma(2.0, 30.0, rows), 2),
            "note": [text[at : at + note_bytes] for at in range(0, len(text), note_bytes)],
        }
    )


def content(case: Case, rows: int, seed: int) -> bytes:
    """Return an object's bytes: Parquet as pyarrow writes it by default, or lines of JSON."""
    events = table(rows, seed, case.note_bytes)
    if case.file_format == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(events, sink)
        return bytes(sink.getvalue())
    at = events.column("at").cast(pa.timestamp("ms", "UTC"))
    times = pc.strftime(at, "%Y-%m-%dT%H:%M:%SZ")
    events = events.set_column(1, "at", times)
    return b"".join(orjson.dumps(event) + b"\n" for event in events.to_pylist())


def lay_down(bucket: Path, name: str, case: Case, count: int) -> int:
    """Write the objects of a case as files of the bucket, with ETags, and return how many rows they hold."""
    rows = case.object_bytes // 100
    for _ in range(2):  # the footer of a small object makes rows seem large
        rows = rows * case.object_bytes // len(content(case, rows, 0))
    originals = []
    for seed in range(CONTENTS):
        data = content(case, rows, seed)
        original = bucket.parent / f"original-{seed}"
        original.write_bytes(data)
        # So S3Proxy knows a file's MD5, which is its ETag.
        os.setxattr(original, "user.user.content-md5", hashlib.md5(data, usedforsecurity=False).digest())
        originals.append(original)
    for number in range(count):
        folder = bucket / name / f"{number // IN_A_FOLDER:03}"
        folder.mkdir(parents=True, exist_ok=True)
        os.link(originals[number % CONTENTS], folder / f"{number:06}.{case.file_format}")
    for original in originals:
        original.unlink()
    return rows * count


def settings(server: S3Server) -> dict[str, str]:
    """Return the settings with which s3a reaches the bucket; all others are the defaults."""
    return {
        "spark.driver.extraClassPath": s3a_jars(),
        "spark.hadoop.fs.s3a.endpoint": server.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": server.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": server.access_key,
        "spark.hadoop.fs.s3a.secret.key": server.secret_key,
    }


def readers(
    spark: SparkSession, server: S3Server, name: str, case: Case, event_time: str
) -> dict[str, Callable[[], DataFrame]]:
    """Return functions that read the objects of a case: by Spark's file source, and by this source."""
    options = {
        "fileFormat": case.file_format,
        "eventTime": event_time,
        "endpoint": server.endpoint,
        "region": server.region,
        "accessKey": server.access_key,
        "secretKey": server.secret_key,
    }
    reader = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true")

    def by_spark() -> DataFrame:
        return reader.format(case.file_format).load(f"s3a://{BUCKET}/{name}")

    def by_tidegate() -> DataFrame:
        return reader.format("tidegate_s3").options(**options).load(f"s3://{BUCKET}/{name}")

    return {SPARK: by_spark, TIDEGATE: by_tidegate}


def drain(frame: Callable[[], DataFrame]) -> None:
    """Read all rows and all columns, planning included."""
    frame().write.format("noop").mode("overwrite").save()


def contents(frame: DataFrame) -> tuple[Any, ...]:
    """Return the number of rows, and a checksum of their values."""
    every = f.xxhash64(*frame.columns).cast("decimal(38,0)")
    return tuple(frame.agg(f.count(f.lit(1)), f.sum(every)).collect()[0])


def row(spark: SparkSession, server: S3Server, name: str, arguments: argparse.Namespace) -> list[str]:
    """Return a case's row of the table; raises SystemExit where the two do not read the same."""
    case = CASES[name]
    count = case.count(arguments.scale)
    bucket = server.folder / BUCKET
    rows = lay_down(bucket, name, case, count)
    frames = readers(spark, server, name, case, arguments.event_time)
    read = {side: contents(frame()) for side, frame in frames.items()}
    if read[SPARK] != read[TIDEGATE] or read[SPARK][0] != rows:
        raise SystemExit(f"{name} holds {rows:,} rows; read were {read}")
    taken = by_turns({side: partial(drain, frame) for side, frame in frames.items()}, arguments.rounds)
    shutil.rmtree(bucket / name)
    peer, ours = seconds(taken[SPARK]), seconds(taken[TIDEGATE])
    cpu_s = [statistics.median(one.whole_cpu_s for one in taken[side]) for side in (SPARK, TIDEGATE)]
    return [
        f"{name}: {count:,} objects, {rows:,} rows",
        spread(peer),
        spread(ours),
        ratio(peer, ours),
        f"{cpu_s[0]:.1f} / {cpu_s[1]:.1f}",
    ]


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--cases", nargs="+", default=[*CASES], choices=[*CASES])
    parser.add_argument("--event-time", default="lastModified")
    parser.add_argument("--conf", nargs="+", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    conf = dict(pair.split("=", 1) for pair in arguments.conf)
    with S3Server() as server:
        (server.folder / BUCKET).mkdir()
        spark = session(settings=settings(server) | conf)
        print_table(COLUMNS, [])
        for name in arguments.cases:
            print(f"| {' | '.join(row(spark, server, name, arguments))} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
