"""Functions for ``Elsewhere`` that run a Spark driver of its own, which may kill itself."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
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

_DEADLINE_S = 120
_WANTED = "TIDEGATE_CONFORMANCE_DRIVERS"


def another_driver(lab: Lab, function: Callable[..., Any], *arguments: Any) -> Elsewhere:
    """Start a process that calls one of the functions below.  Raises SkippedError if that is forbidden."""
    if os.environ.get(_WANTED, "").lower() in {"0", "no", "false"}:
        raise SkippedError(f"it starts another driver of Spark, which the environment variable {_WANTED} forbids")
    return lab.elsewhere(function, *arguments)


def read_on_cluster(source: Source, key: str, checkpoint: str) -> tuple[list[str], bool]:
    """Stream with two executors; each task fails at its first attempt.  Return keys, and whether any was repeated."""
    rows: list[Any] = []
    spark = _session("local-cluster[2,1,1024]")
    frame = source.read_stream(spark).select(_keys(key))
    tried = frame.mapInArrow(_fail_once, "key string, attempt long")
    _finish(tried.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect())), checkpoint)
    spark.stop()
    return [row["key"] for row in rows], any(row["attempt"] for row in rows)


def stream_until_killed(source: Source, key: str, checkpoint: str, files: str, last: int) -> None:
    """Stream into a file for each batch, and kill this driver once batch ``last``, never committed, has its file."""

    def write(batch: DataFrame, number: int) -> None:
        keys = [row["key"] for row in batch.collect()]
        Path(files, str(number)).write_text(json.dumps(keys), encoding="utf-8")
        if number >= last:
            os.killpg(0, signal.SIGKILL)  # with Spark's Java and its workers

    frame = source.read_stream(_session("local[2]")).select(_keys(key))
    _finish(frame.writeStream.foreachBatch(write), checkpoint)


def keys_of_files(files: Path) -> dict[int, list[str]]:
    """Return the keys in the files of ``stream_until_killed``, by batch."""
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
        yield batch.append_column("attempt", pa.repeat(context.attemptNumber(), batch.num_rows))
        if batch.num_rows and not context.attemptNumber():
            raise RuntimeError("the kit lets every first attempt fail")
