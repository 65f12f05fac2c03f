"""The demonstration: a windowed count over a skewed history, by Spark's own source and aligned, and each row's fate.

The progress of Spark's source has the offsets of each partition.  The demonstration has written the history itself, so
it knows the event time at every offset.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.alignment.splits import SplitId
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import OptionError, ServerError
from tidegate.jobs.account.account import Account, Figure, SourceAccount, balanced
from tidegate.jobs.figures import count
from tidegate.jobs.pages.trace import Stretch
from tidegate.jobs.session import ends_on_signals, follow, spark_session
from tidegate.servers import KafkaServer, write_history
from tidegate.servers.java import find_jars
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Resolved one by one, because PySpark already has their dependencies.  That of Spark itself also loads in Spark 4.3.
_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
_JARS = (
    _SOURCE,
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


def built_in_jars() -> str:
    """Return the jars of Spark's built-in Kafka source as ``spark.jars`` takes them.

    ``SPARK_KAFKA_LIBS`` may point to a folder that holds them.

    Raises ServerError if Maven Central cannot be reached.
    """
    folders = [find_jars(coordinate, "SPARK_KAFKA_LIBS", transitive=False) for coordinate in _JARS]
    return ",".join(sorted({str(jar) for folder in folders for jar in folder.glob("*.jar")}))


def built_in_release() -> str:
    """Name Spark's Kafka source by its own release, and by PySpark's if that is another one."""
    release, of_spark = _SOURCE.rpartition(":")[2], version("pyspark")
    named = f"Spark's own Kafka source ({release}"
    return f"{named})" if _minor(release) == _minor(of_spark) else f"{named}, which loads in Spark {of_spark})"


def _minor(release: str) -> list[str]:
    return re.findall(r"\d+", release)[:2]


def as_progress(batch: QueryProgress, topic: str, history: Sequence[NDArray[np.int64]]) -> QueryProgress:
    """Return a batch of Spark's own source with the progress that tidegate's source would show of it.

    history: the event times of each partition in ms, by offset.
    """
    if batch.source.progress is not None:
        return batch
    ends: Mapping[str, int] = batch.source.stored[topic]
    by_split = {}
    for partition, times_ms in enumerate(history):
        end = ends[str(partition)]
        left = len(times_ms) - end
        by_split[f"{topic}-{partition}"] = ("reading", int(times_ms[end]) if left else None, left)
    progress = SourceProgress.from_json(
        {
            **dict.fromkeys(("watermark", "bound", "low", "heldBy", "groupBound", "spread", "mostBehind")),
            **dict.fromkeys(("oldestEventTime", "currentFetchEventTimeLag")),
            **dict.fromkeys(("eventTimeLag", "lateRows", "lateRowsTotal", "lookups", "peeks", "inexactSplits"), 0),
            "splits": {},
            "paused": {},
            "timeToDeletion": {},
            "lateSplits": [],
            "plannedRows": batch.rows,
            "rowsRemaining": sum(left for _, _, left in by_split.values()),
            "bySplit": by_split,
        }
    )
    return replace(batch, sources=(replace(batch.source, progress=progress),))


_WINDOW = "5 minutes"
_LEAST_ROWS = 1_000
_TOPIC = "orders"
_HOUR_MS = 3_600_000
_BEGIN_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC: the same rows on every day
_HOURS = 24
_LATE_HOURS = 2
_SHARES = (10, 10, 10, 3)  # the share of the rows in each partition; the last partition is the late one
_BATCHES_BY_BACKLOG = 16.5
_ALIGNED = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1)).with_watermark_alignment(
    max_drift=timedelta(hours=1)
)


@dataclass(frozen=True, slots=True)
class CountRun:
    """The account of every row of one run.

    how: what read the topic, and how much in a batch.
    counted: rows in windows that were emitted.
    open: rows in windows that still wait in Spark's state for the watermark to pass.
    batches: all batches of Spark, including those that read nothing.
    """

    name: str
    how: str
    rows_in: int
    counted: int
    open: int
    batches: tuple[QueryProgress, ...]
    seconds: float

    @property
    def lost(self) -> int:
        """The rows that are neither counted nor waiting."""
        return self.rows_in - self.counted - self.open

    @property
    def account(self) -> Account:
        """What became of every row, exactly: the sink and the state were counted."""
        return balanced(
            batches=(0, len(self.batches) - 1),
            sources=[SourceAccount(self.name, Figure(self.rows_in))],
            late=Figure(self.lost),
            open_=Figure(self.open),
        )

    @property
    def dropped_by_spark(self) -> int:
        """Spark's own metric; it counts groups of a task, not the rows in them."""
        return sum(batch.dropped_rows for batch in self.batches)

    @property
    def peak_state_rows(self) -> int:
        """The maximum number of rows in Spark's state after a batch."""
        return max((batch.state_rows for batch in self.batches), default=0)


def count_by_window(
    spark: SparkSession,
    rows: DataFrame,
    *,
    name: str,
    how: str,
    delay: str,
    rows_in: int,
    work: Path,
    on_batch: Callable[[QueryProgress], QueryProgress] = lambda batch: batch,
) -> CountRun:
    """Count the rows of a Kafka stream in windows of 5 minutes, in append mode, up to its present end.

    rows: a DataFrame with the columns of a Kafka source, tidegate's or Spark's own.
    delay: the watermark delay, as Spark writes durations.
    work: an empty folder for the checkpoint.
    on_batch: takes each batch when it is done, and returns it as the run keeps it.
    """
    from pyspark.sql import functions as f

    counts = (
        rows.withWatermark("timestamp", delay)
        .groupBy(f.window("timestamp", _WINDOW))
        .count()
        .writeStream.format("memory")
        .queryName("counts")
        .outputMode("append")
        .option("checkpointLocation", str(work))
        .trigger(availableNow=True)
    )
    begun = time.monotonic()
    batches = [on_batch(batch) for batch in follow(counts.start())]
    seconds = time.monotonic() - begun
    counted = spark.table("counts").agg(f.sum("count")).first()
    waiting = spark.read.format("statestore").load(str(work)).agg(f.sum("value.count")).first()
    return CountRun(
        name,
        how,
        rows_in,
        counted=(counted and counted[0]) or 0,
        open=(waiting and waiting[0]) or 0,
        batches=tuple(batches),
        seconds=seconds,
    )


@dataclass(frozen=True, slots=True)
class Demo:
    """The runs, and the history that they have read."""

    history: dict[SplitId, Stretch]
    runs: tuple[CountRun, ...]


def skewed_history(rows: int) -> list[NDArray[np.int64]]:
    """Return the event times, in ms, of each partition of a topic with this number of rows.

    Three partitions hold 24 hours; the last was added late and holds the last 2 of them.
    """
    counts = [rows * share // sum(_SHARES) for share in _SHARES]
    counts[0] += rows - sum(counts)
    hours = [*[_HOURS] * (len(counts) - 1), _LATE_HOURS]
    end_ms = _BEGIN_MS + _HOURS * _HOUR_MS
    return [
        np.linspace(end_ms - length * _HOUR_MS, end_ms, number, endpoint=False).astype(np.int64)
        for number, length in zip(counts, hours, strict=True)
    ]


def run_demo(rows: int, say: Callable[[str], None]) -> Demo:
    """Start a Kafka, load it, and count its rows by window: with Spark's own source, and aligned.

    say: takes a short sentence about the current step.

    Raises ServerError when Kafka or Java cannot be started.
    """
    if rows < _LEAST_ROWS:
        raise OptionError(f"--rows is {rows}, but the demonstration needs at least {count(_LEAST_ROWS)}")
    settings = {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
    with ends_on_signals(), tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        work = Path(folder)
        say("Starting Kafka")
        with KafkaServer() as kafka:
            say(f"Loading {count(rows)} rows")
            history = skewed_history(rows)
            stretches = {
                f"{_TOPIC}-{partition}": Stretch(int(times_ms[0]), int(times_ms[-1]))
                for partition, times_ms in enumerate(history)
            }
            kafka.create_topic(_TOPIC, len(history))
            for partition, times_ms in enumerate(history):
                write_history(kafka.bootstrap_servers, _TOPIC, partition, times_ms)
            say("Fetching Spark's own Kafka source")
            jars = _jars(say)
            say("Starting Spark")
            if jars is not None:
                settings["spark.jars"] = jars
            with spark_session("local[*]", "tidegate demo", work / "spark.log", settings) as spark:
                aligned = _source(kafka.bootstrap_servers, watermarks=_ALIGNED).read_stream
                # This warms up the code of both runs, so that neither pays for it.
                rows_in = _source(kafka.bootstrap_servers).read(spark).count()

                def counted(name: str, how: str, frame: DataFrame, delay: str) -> CountRun:
                    def kept(batch: QueryProgress) -> QueryProgress:
                        batch = as_progress(batch, _TOPIC, history)
                        say(_sentence(name, batch, rows_in))
                        return batch

                    return count_by_window(
                        spark, frame, name=name, how=how, delay=delay, rows_in=rows_in, work=work / name, on_batch=kept
                    )

                limit = round(rows / _BATCHES_BY_BACKLOG)
                how, frame = _unaligned(spark, kafka.bootstrap_servers, limit, is_built_in=jars is not None)
                return Demo(
                    stretches,
                    (
                        counted("unaligned", f"{how}, with maxOffsetsPerTrigger = {limit}", frame, "10 minutes"),
                        counted("aligned", "tidegate_kafka, with maxDrift = 1 hour", aligned(spark), "1 minute"),
                    ),
                )


def _jars(say: Callable[[str], None]) -> str | None:
    """Return the jars of Spark's own Kafka source; None: they cannot be had."""
    try:
        return built_in_jars()
    except ServerError as error:
        say(f"Without Spark's own Kafka source, because {error}")
        return None


def _unaligned(spark: SparkSession, servers: str, limit: int, *, is_built_in: bool) -> tuple[str, DataFrame]:
    """Return what reads the topic without alignment, and its rows: Spark's own source, or what stands in for it."""
    if not is_built_in:
        stand_in = _source(servers, alignment="none", max_offsets_per_trigger=limit)
        return "tidegate_kafka with alignment = none, in place of Spark's own Kafka source", stand_in.read_stream(spark)
    options = {"kafka.bootstrap.servers": servers, "subscribe": _TOPIC, "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", limit)
    return built_in_release(), rows.load()


def _source(servers: str, **fields: Any) -> KafkaSource:
    return KafkaSource(bootstrap_servers=servers, subscribe=(_TOPIC,), starting_offsets="earliest", **fields)


def _sentence(name: str, batch: QueryProgress, rows: int) -> str:
    left = sum(progress.rows_remaining for progress in batch.source_progress)
    return f"Counting {name}: batch {batch.number}, {count(rows - left)} of {count(rows)} rows read"
