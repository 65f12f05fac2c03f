"""Functions for ``Elsewhere`` that run a Spark driver of its own, which may be killed."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.elsewhere import Elsewhere
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.spark.session import configured
from tidegate.errors import DeadlineError
from tidegate.sources.source import Source

__all__ = ["Delivered", "another_driver", "keys_of_files", "read_on_cluster", "stream_until_held"]

_DEADLINE_S = 120
_POLL_S = 0.05
_WANTED = "TIDEGATE_CONFORMANCE_DRIVERS"


@dataclass(frozen=True)
class Delivered:
    """The result of a stream."""

    keys: list[str]
    executors: int
    retries: int


@contextmanager
def another_driver(lab: Lab) -> Iterator[Elsewhere]:
    """Start a process that calls the functions below, and end it.  Raises SkippedError if that is forbidden."""
    if os.environ.get(_WANTED, "").lower() in {"0", "no", "false"}:
        raise SkippedError(f"it starts another driver of Spark, which the environment variable {_WANTED} forbids")
    with closing(lab.elsewhere()) as driver:
        yield driver


def read_on_cluster(source: Source, key: str, checkpoint: str) -> Delivered:
    """Stream with two executors; every task with rows fails at its first attempt."""
    rows: list[Any] = []
    spark = _session("local-cluster[2,1,1024]")
    frame = source.read_stream(spark).select(_keys(key))
    tried = frame.mapInArrow(_fail_once, "key string, executor long, attempt long")
    _finish(tried.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect())), checkpoint)
    spark.stop()
    executors, retries = {row["executor"] for row in rows}, max((row["attempt"] for row in rows), default=0)
    return Delivered([row["key"] for row in rows], len(executors), retries)


def stream_until_held(source: Source, key: str, checkpoint: str, files: str, held: int) -> None:
    """Stream into a file for each batch, and return when batch ``held`` has its file: it is never committed."""
    reached = threading.Event()

    def write(batch: DataFrame, number: int) -> None:
        keys = [row["key"] for row in batch.collect()]
        Path(files, str(number)).write_text(json.dumps(keys), encoding="utf-8")
        if number >= held:
            reached.set()
            threading.Event().wait()

    writer = source.read_stream(_session("local[2]")).select(_keys(key)).writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    while not reached.wait(_POLL_S) and query.isActive:
        pass
    if not reached.is_set():
        query.awaitTermination()  # raises if it failed


def keys_of_files(files: Path) -> dict[int, list[str]]:
    """Return the keys in the files of ``stream_until_held``, by batch."""
    return {int(path.name): json.loads(path.read_text(encoding="utf-8")) for path in files.iterdir()}


def _session(master: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # so that a cluster's workers get it, too
    return configured(SparkSession.builder.master(master))


def _keys(column: str) -> Column:
    return F.col(column).cast("string").alias("key")


def _finish(writer: DataStreamWriter, checkpoint: str) -> None:
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    if not query.awaitTermination(_DEADLINE_S):
        raise DeadlineError(f"a stream with Trigger.AvailableNow did not end within {_DEADLINE_S} s")


def _fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - this is a task
    for batch in batches:
        # Each executor has its own parent process of Python workers.
        numbers = {"executor": os.getppid(), "attempt": context.attemptNumber()}
        for name, number in numbers.items():
            batch = batch.append_column(name, pa.repeat(number, batch.num_rows))  # noqa: PLW2901 - it grows
        yield batch
        if batch.num_rows and not context.attemptNumber():
            raise RuntimeError("the kit lets every first attempt fail")
