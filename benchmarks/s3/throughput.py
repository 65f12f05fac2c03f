"""Measures how fast objects are read into Spark, against Spark's file source over Hadoop's S3 file system (s3a).

Both read the same objects of one real S3 endpoint to Spark's noop sink, as the same given columns.  They run by turns
in one session, with a warm Java and a warm Python worker for each core.

    python -m benchmarks.s3.throughput [--rounds 5] [--scale 1] [--cases parquet-small ...]
        [--event-time lastModified] [--conf NAME=VALUE ...]

Large objects have 64 MB, 2 GB in all.  Small ones have 10 KB, 100 MB in all.  ``--scale 0.25`` makes a
quarter as many.  Rows have some 50 bytes in Parquet and 130 in JSON, and 1 KB in the wide cases.  With
``--event-time column:at`` all objects are surveyed before they are read.  ``--conf`` sets Spark's settings for
both sides.  CPU seconds are those of Spark's Java and its Python workers, without the endpoint's.
A proxy counts requests and bytes, in a pass that is not timed.  The jars of s3a have 690 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
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

from benchmarks.measuring.peers import alternate, print_table, s3a_jars, session, spread
from benchmarks.s3.request_counter import RequestCounter
from tidegate.servers import S3Server
from tidegate.spark_private import java_of

SPARK, TIDEGATE = "Spark", "tidegate"
TIMED, COUNTED = "timed", "counted"  # buckets of the same objects: s3a knows an endpoint by the bucket
SCHEMA = "id long, at timestamp, user long, kind string, amount double, note string"
FIRST_US = 1_767_225_600_000_000
LARGE, SMALL = 64 << 20, 10 << 10
IN_A_FOLDER = 500  # a listing of S3Proxy takes a time that grows with the square of this
CONTENTS = 4  # different objects; all others are links to these
COLUMNS = ("", "Spark over s3a", "tidegate", "ratio", "CPU seconds", "requests an object", "MB received")


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


def lay_down(buckets: list[Path], name: str, case: Case, count: int) -> int:
    """Write the objects of a case as files of each bucket, with ETags, and return how many rows they hold."""
    rows = case.object_bytes // 100
    for _ in range(2):  # the footer of a small object makes rows seem large
        rows = rows * case.object_bytes // len(content(case, rows, 0))
    originals = []
    for seed in range(CONTENTS):
        data = content(case, rows, seed)
        original = buckets[0].parent / f"original-{seed}"
        original.write_bytes(data)
        # So S3Proxy knows a file's MD5, which is its ETag.
        os.setxattr(original, "user.user.content-md5", hashlib.md5(data, usedforsecurity=False).digest())
        originals.append(original)
    for bucket in buckets:
        for number in range(count):
            folder = bucket / name / f"{number // IN_A_FOLDER:03}"
            folder.mkdir(parents=True, exist_ok=True)
            os.link(originals[number % CONTENTS], folder / f"{number:06}.{case.file_format}")
    for original in originals:
        original.unlink()
    return rows * count


def settings(server: S3Server, counter: RequestCounter) -> dict[str, str]:
    """Return the settings with which s3a reaches both buckets; all others are the defaults."""
    return {
        "spark.driver.extraClassPath": s3a_jars(),
        "spark.hadoop.fs.s3a.endpoint": server.endpoint,
        f"spark.hadoop.fs.s3a.bucket.{COUNTED}.endpoint": counter.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": server.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": server.access_key,
        "spark.hadoop.fs.s3a.secret.key": server.secret_key,
    }


def readers(
    spark: SparkSession, server: S3Server, counter: RequestCounter, name: str, case: Case, event_time: str
) -> dict[str, Callable[[str], DataFrame]]:
    """Return functions that read the objects of a case in a bucket: by Spark's file source, and by this source."""
    endpoints = {TIMED: server.endpoint, COUNTED: counter.endpoint}
    options = {
        "fileFormat": case.file_format,
        "eventTime": event_time,
        "region": server.region,
        "accessKey": server.access_key,
        "secretKey": server.secret_key,
    }
    reader = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true")

    def by_spark(bucket: str) -> DataFrame:
        return reader.format(case.file_format).load(f"s3a://{bucket}/{name}")

    def by_tidegate(bucket: str) -> DataFrame:
        configured = reader.format("tidegate_s3").options(**options, endpoint=endpoints[bucket])
        return configured.load(f"s3://{bucket}/{name}")

    return {SPARK: by_spark, TIDEGATE: by_tidegate}


def drain(frame: Callable[[str], DataFrame], bucket: str) -> None:
    """Read all rows and all columns, planning included."""
    frame(bucket).write.format("noop").mode("overwrite").save()


def contents(frame: DataFrame) -> tuple[Any, ...]:
    """Return the number of rows, and a checksum of their values."""
    every = f.xxhash64(*frame.columns).cast("decimal(38,0)")
    return tuple(frame.agg(f.count(f.lit(1)), f.sum(every)).collect()[0])


class CpuMeter:
    """The CPU time of a session's Java and of all processes that it started, in seconds."""

    def __init__(self, spark: SparkSession) -> None:
        java = java_of(spark)
        self._root = int(java.java.lang.ProcessHandle.current().pid())

    def seconds(self) -> float:
        """Return user and system time since the start, ended processes included."""
        stats = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # The name before the bracket may hold anything.
                fields = path.read_text().rpartition(")")[2].split()
                stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
        ticks, parents = 0, [self._root]
        while parents:
            parent = parents.pop()
            ticks += stats[parent][1]
            parents += [pid for pid, (its_parent, _) in stats.items() if its_parent == parent]
        return ticks / os.sysconf("SC_CLK_TCK")

    def metered(self, work: Callable[[], None], spent: list[float]) -> Callable[[], None]:
        """Return the work, which then also notes its CPU seconds."""

        def run() -> None:
            before = self.seconds()
            work()
            spent.append(self.seconds() - before)

        return run


def requests_of(counter: RequestCounter, objects: int) -> str:
    """Return requests for each object, by kind."""
    return " + ".join(f"{count / objects:.2f} {kind}" for kind, count in sorted(counter.requests.items()))


@dataclass(frozen=True, slots=True)
class Bench:
    """A session, and an endpoint that it reaches directly and through a counter."""

    spark: SparkSession
    server: S3Server
    counter: RequestCounter
    event_time: str

    def row(self, name: str, rounds: int, scale: float) -> list[str]:
        """Return a case's row of the table; raises SystemExit where the two do not read the same."""
        case = CASES[name]
        count = case.count(scale)
        buckets = [self.server.folder / bucket for bucket in (TIMED, COUNTED)]
        rows = lay_down(buckets, name, case, count)
        frames = readers(self.spark, self.server, self.counter, name, case, self.event_time)
        requests, received, read = {}, {}, {}
        for side, frame in frames.items():
            self.counter.reset()
            read[side] = contents(frame(COUNTED))
            requests[side] = requests_of(self.counter, count)
            received[side] = self.counter.received_bytes
        if read[SPARK] != read[TIDEGATE] or read[SPARK][0] != rows:
            raise SystemExit(f"{name} holds {rows:,} rows; read were {read}")
        meter = CpuMeter(self.spark)
        spent: dict[str, list[float]] = {side: [] for side in frames}
        runs = {side: meter.metered(partial(drain, frame, TIMED), spent[side]) for side, frame in frames.items()}
        taken = alternate(runs, rounds)
        for bucket in buckets:
            shutil.rmtree(bucket / name)
        medians = {side: statistics.median(seconds) for side, seconds in taken.items()}

        def both(texts: Mapping[str, str]) -> str:
            return f"{texts[SPARK]} / {texts[TIDEGATE]}"

        return [
            f"{name}: {count:,} objects, {rows:,} rows",
            *(spread(taken[side]) for side in frames),
            f"{medians[SPARK] / medians[TIDEGATE]:.2f}x",
            both({side: f"{statistics.median(seconds[1:]):.1f}" for side, seconds in spent.items()}),
            both(requests),
            both({side: f"{size / 1e6:,.0f}" for side, size in received.items()}),
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
    with S3Server() as server, RequestCounter(server.endpoint) as counter:
        for bucket in (TIMED, COUNTED):
            (server.folder / bucket).mkdir()
        spark = session(settings=settings(server, counter) | conf)
        bench = Bench(spark, server, counter, arguments.event_time)
        print_table(COLUMNS, [])
        for name in arguments.cases:
            print(f"| {' | '.join(bench.row(name, arguments.rounds, arguments.scale))} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
