"""Runs the back-fill: from any source to Parquet, aligned in event time, and resumable at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import counted
from tidegate.jobs.account.account import Account
from tidegate.jobs.account.of_progress import RunTally
from tidegate.jobs.backfill.output import Output
from tidegate.jobs.backfill.source import binding, look
from tidegate.jobs.figures import clock_time, count, printable, share, span
from tidegate.jobs.follow import follow
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.source import Source


class RunLine:
    """Adds up the batches of one run."""

    def __init__(self) -> None:
        self.rows = self.batches = 0
        self._last: SourceProgress | None = None

    @property
    def bad_records(self) -> int:
        """How many bad records all runs have set aside, as far as the last batch tells."""
        return (self._last and self._last.bad_records_total) or 0

    def after(self, batch: QueryProgress) -> str:
        """Take another batch; return the rows of this run, the speed of the batch, and the event time reached."""
        self.batches += 1
        self.rows += batch.rows
        last = self._last = batch.source.progress or self._last  # none: an earlier run has planned it
        parts = [counted(self.rows, "row"), f"{count(batch.rows / batch.seconds if batch.seconds else 0)} rows/s"]
        if last is not None:
            parts.insert(0, share(self.rows, self.rows + last.rows_remaining))
            if last.rows_remaining:
                parts += [f"read up to {clock_time(last.bound)}", f"{span(last.event_time_lag)} behind"]
                parts += [f"held by {printable(last.held_by)}"] if last.held_by else []
        return " · ".join(parts)


def backfill(source: Source, out: Path, say: Callable[[str], None], *, master: str) -> list[tuple[str, str]]:
    """Write a source to ``out``, or continue where an earlier run ended; return names and values of a summary.

    Every row is written once, even if earlier runs were killed.

    say: takes a line about the present step.

    Raises a TidegateError for a source that cannot be read, for another source than before, and for a folder with other
    content.  Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    output, bound = Output(out), binding(source, out)
    with ends_on_signals(), output.alone():
        look(source, output.state(bound))
        say("Starting Spark")
        output.claim(bound)
        with spark_session(master, "tidegate backfill", output.log) as spark:
            begun = time.monotonic()
            line, tally = RunLine(), RunTally(reads_once=True)
            for batch in write_batches(spark, source, output):
                say(line.after(batch))
                tally.add(batch)
            seconds = time.monotonic() - begun
        return summary(output, line, tally, seconds)


def summary(output: Output, line: RunLine, tally: RunTally, seconds: float) -> list[tuple[str, str]]:
    """Return names and values for display; ``seconds`` is the time for reading and writing, without Spark's start."""
    rows_in_all, account = output.rows(), account_of(tally, output, line.rows)
    if not line.rows and not line.bad_records:
        are = "is" if rows_in_all == 1 else "are"
        return [("nothing new", f"{counted(rows_in_all, 'row')} {are} in {output.path}")]
    least = "at least " if tally.forgotten else ""
    in_all = "" if line.rows == rows_in_all else f" in this run, {count(rows_in_all)} in all"
    return [
        ("rows written", f"{least}{count(line.rows)}{in_all}"),
        *([("bad records", f"{count(line.bad_records)} set aside")] if line.bad_records else []),
        ("batches", f"{least}{count(line.batches)}"),
        ("seconds", f"{seconds:.1f}"),
        ("rows/s", f"{least}{count(line.rows / seconds)}"),
        ("output", str(output.path)),
        *([] if account is None else [("account", account.headline)]),
    ]


def account_of(tally: RunTally, output: Output, rows: int) -> Account | None:
    """Return the account of a run, in which rows that were read and are not in its files are missing."""
    batches = tally.account().batches
    if batches is None:
        return None
    written = output.rows(batches[0])
    if written == rows or tally.forgotten:  # whose rows are in the files, too
        return tally.account()
    return tally.account([f"{count(rows)} rows were read, and {count(written)} written"])


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
    yield from follow(query.start())
