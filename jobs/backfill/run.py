"""Runs the back-fill: from any source to Parquet, aligned in event time, and resumable at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tidegate.alignment.splits import SplitId
from tidegate.errors import counted
from tidegate.jobs.account.account import Account
from tidegate.jobs.account.of_progress import RunTally
from tidegate.jobs.backfill.display import RunDisplay
from tidegate.jobs.backfill.output import Output
from tidegate.jobs.backfill.source import binding, look
from tidegate.jobs.figures import count
from tidegate.jobs.follow import follow
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.source import Source


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run.

    rows_in_all: how many rows all runs wrote into this output.
    seconds: the time for reading and writing, without Spark's start.
    bad_records: how many bad records all runs into this output have set aside, if an option asks for that.
    account: what became of every row that this run has read; None: it had nothing to read.
    """

    output: Path
    splits: int
    rows: int
    rows_in_all: int
    batches: int
    seconds: float
    bad_records: int = 0
    account: Account | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Return names and values for display."""
        if not self.rows and not self.bad_records:
            are = "is" if self.rows_in_all == 1 else "are"
            return [("nothing new", f"{counted(self.rows_in_all, 'row')} {are} in {self.output}")]
        written = count(self.rows)
        if self.rows != self.rows_in_all:
            written += f" in this run, {count(self.rows_in_all)} in all"
        lines = [("rows written", written), ("splits", count(self.splits))]
        if self.bad_records:
            lines.append(("bad records", f"{count(self.bad_records)} set aside"))
        return [
            *lines,
            ("batches", count(self.batches)),
            ("seconds", f"{self.seconds:.1f}"),
            ("rows/s", count(self.rows / self.seconds)),
            ("output", str(self.output)),
            *([] if self.account is None else [("account", self.account.headline)]),
        ]


def backfill(source: Source, out: Path, errors: Console, *, master: str = "local[*]") -> Summary:
    """Write a source to ``out``, or continue where an earlier run ended.

    Every row is written once, even if earlier runs were killed.

    Raises a TidegateError for a source that cannot be read, for another source than before, and for a folder with other
    content.  Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    output, bound = Output(out), binding(source)
    with ends_on_signals(), output.alone():
        look(source, output.state(bound))
        errors.print("Starting Spark", highlight=False)
        output.claim(bound)
        with spark_session(master, "tidegate backfill", output.log) as spark:
            begun = time.monotonic()
            splits, bad_records = set[SplitId](), 0
            tally = RunTally()
            with RunDisplay(errors) as display:
                for batch in write_batches(spark, source, output):
                    splits |= batch.source.positions.keys()
                    display.update(batch)
                    tally.add(batch)
                    said = batch.source.progress
                    bad_records = (said and said.bad_records_total) or bad_records
            seconds = time.monotonic() - begun
    return Summary(
        output.path,
        len(splits),
        display.rows,
        output.rows(),
        display.batches,
        seconds,
        bad_records,
        account_of(tally, output, display.rows),
    )


def account_of(tally: RunTally, output: Output, rows: int) -> Account | None:
    """Return the account of a run, in which rows that were read and are not in its files are missing."""
    batches = tally.account().batches
    if batches is None:
        return None
    written = output.rows(batches[0])
    return tally.account([] if written == rows else [f"{count(rows)} rows were read, and {count(written)} written"])


def write_batches(spark: SparkSession, source: Source, output: Output) -> Iterator[QueryProgress]:
    """Write all present rows, batch by batch, and yield each batch when it is written."""

    def write(batch: DataFrame, number: int) -> None:
        # If a run ended before a batch was committed, Spark repeats the batch, with the same number and the same rows,
        # and overwrites its files.
        batch.write.mode("overwrite").parquet(output.batch(number, batch.columns))

    query = (
        source.read_stream(spark)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(output.checkpoint))
        .trigger(availableNow=True)
    )
    yield from follow(query.start)
