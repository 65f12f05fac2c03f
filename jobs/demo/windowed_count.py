"""The query of the demonstration: a windowed count, and the account of every row."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.jobs.account.account import Account, Figure, SourceAccount, balanced
from tidegate.jobs.follow import follow
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_WINDOW = "5 minutes"


@dataclass(frozen=True, slots=True)
class CountRun:
    """The account of every row of one run.

    counted: rows in windows that were emitted.
    open: rows in windows that still wait in Spark's state for the watermark to pass.
    batches: all batches of Spark, including those that read nothing.
    """

    name: str
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
    delay: str,
    rows_in: int,
    work: Path,
    on_batch: Callable[[QueryProgress], None] = lambda _: None,
) -> CountRun:
    """Count the rows of a Kafka stream in windows of 5 minutes, in append mode, up to its present end.

    rows: a DataFrame with the columns of a Kafka source, tidegate's or Spark's own.
    delay: the watermark delay, as Spark writes durations.
    work: an empty folder for the checkpoint.
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
    batches = []
    for batch in follow(counts.start()):
        batches.append(batch)
        on_batch(batch)
    seconds = time.monotonic() - begun
    counted = spark.table("counts").agg(f.sum("count")).first()
    waiting = spark.read.format("statestore").load(str(work)).agg(f.sum("value.count")).first()
    return CountRun(
        name,
        rows_in,
        counted=(counted and counted[0]) or 0,
        open=(waiting and waiting[0]) or 0,
        batches=tuple(batches),
        seconds=seconds,
    )
