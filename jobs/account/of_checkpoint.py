"""``tidegate account``: the account of a query from outside, by its checkpoint.

Spark stores no metrics there.  On the driver's machine, notes have what Spark told of each batch: with all of them,
the account is that of the runs.  Without them, it has bounds.  For each batch Spark stores its watermark, and tidegate
what the batch reads, and the watermark before which nothing is left to read.  If Spark's is not greater, no row of the
batch is late.  That holds if Spark's watermark is of the source's event time, and if records keep to
``maxOutOfOrderness``: the account says ``by plan``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import OptionError
from tidegate.jobs.account.account import NO_ROWS, Account, Figure, SourceAccount, balanced
from tidegate.jobs.account.of_progress import RunTally, rows_by_split, skips
from tidegate.jobs.account.query import rows_in_state
from tidegate.jobs.session import spark_session
from tidegate.jobs.spark_checkpoint import BatchLogs, LoggedOffsets, open_checkpoint, query_id
from tidegate.readers.s3.address import local_path, s3_address
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import QueryProgress
from tidegate.sources.progress.told import NOTHING_TOLD, Told, told
from tidegate.sources.windows.native import AHEAD_MS

_NOT_TOLD = "offsets may have no record, and only the driver's machine knows Spark's metrics, for a day at least"


def run_account(checkpoint: str, *, as_json: bool) -> None:
    """Print the account of a query, for the batches that its checkpoint still has.

    checkpoint: a path or ``s3://bucket/prefix``.

    Raises OptionError, one sentence, if it is no such checkpoint, ConnectorError if it cannot be read, and ServerError
    if Spark, which counts the rows in open windows, does not start.
    """
    folder = open_checkpoint(checkpoint, S3ConnectionConfig(), option="CHECKPOINT")
    logged, operators = written_batches(folder), folder.within("state").folders()
    identity = query_id(folder)
    # Read after the batches, of which Spark tells once they are written.
    found = NOTHING_TOLD if identity is None else told(identity)
    account = account_of_checkpoint(logged, found, has_state=bool(operators))
    is_countable = len(operators) == 1 and (found.plan is None or found.plan.tells_rows)
    # Spark alone would need Hadoop's jars for a bucket.
    if account.open.bound != "exact" and is_countable and s3_address(checkpoint) is None:
        typer.echo("Starting Spark, which counts the rows in open windows", err=True)
        with (
            TemporaryDirectory(prefix="tidegate-account-") as work,
            spark_session("local[2]", "tidegate account", Path(work) / "spark.log") as spark,
        ):
            last = None if account.batches is None else account.batches[1]
            state = rows_in_state(spark, str(local_path(checkpoint)), found.plan, last)
        account = account_of_checkpoint(logged, found, state, has_state=True)
    typer.echo(json.dumps(account.to_json()) if as_json else str(account))


def written_batches(folder: Folder) -> dict[int, LoggedOffsets]:
    """Return the batches that a checkpoint still has, and that are written.  Raises OptionError if there is none."""
    logs = BatchLogs(folder)
    logged = {number: offsets for number in logs.written() if (offsets := logs.offsets(number)) is not None}
    if not logged:
        raise OptionError(f"CHECKPOINT is {folder.address}, which is no checkpoint with a written batch")
    return logged


def account_of_checkpoint(
    logged: Mapping[int, LoggedOffsets], found: Told = NOTHING_TOLD, state: Figure | None = None, *, has_state: bool
) -> Account:
    """Return the account of written batches.

    found: what Spark told of the query on this machine.
    state: the rows in Spark's state of windows after the last batch, if they are counted.
    has_state: whether Spark has state.

    Raises CheckpointError for an offset of another version of tidegate.
    """
    numbers = [number for number in logged if number == 0 or number - 1 in logged]
    missing = []
    if min(logged):
        missing.append(
            f"the batches up to {min(logged)}, which the checkpoint no longer has "
            "(spark.sql.streaming.minBatchesToRetain)"
        )
    heard = numbers[:-1] if numbers and numbers[-1] not in found.batches else numbers
    entries = [entry for at in heard if (entry := found.batches.get(at)) is not None and _is_of(entry, logged[at])]
    if not entries or len(entries) < len(heard) or not _add_up(entries):
        return _by_plan(logged, numbers, missing, state, has_state=has_state)
    if heard != numbers:
        missing.append(f"what became of batch {numbers[-1]}, of which Spark has not told")
    tally = RunTally()
    for entry in entries:
        tally.add(entry)
    return tally.account(missing, state)


def _is_of(entry: QueryProgress, logged: LoggedOffsets) -> bool:
    """Return whether a progress is of a logged batch, and not of a copy of the checkpoint."""
    ends = [Offset.recognized(source.value) for source in logged.sources]
    return all(batch.end in ends for batch in entry.sources if batch.end is not None)


def _add_up(entries: Sequence[QueryProgress]) -> bool:
    """Return whether each run has the same number of sources, and has told of each that is tidegate's."""
    sources = [(entry.run_id, at, batch) for entry in entries for at, batch in enumerate(entry.sources)]
    heard = {(run, at) for run, at, batch in sources if batch.end is None or batch.progress is not None}
    return heard == {(entry.run_id, at) for entry in entries for at in range(len(entries[0].sources))}


def _by_plan(
    logged: Mapping[int, LoggedOffsets],
    numbers: Sequence[int],
    missing: list[str],
    state: Figure | None,
    *,
    has_state: bool,
) -> Account:
    """Return the account without what Spark told."""
    sources, risky = [], 0
    for place in logged[max(logged)].by_place:
        reads = _reads(logged, numbers, place)
        sources.append(_source(place, reads))
        missing += [sentence for read in reads for sentence in skips(read.begin, read.end)]
        if sources[-1].read.rows is None:
            missing.append(f"how many rows of {sources[-1].reads} were read: only offsets of Kafka tell")
            risky += any(read.is_risky and read.moves for read in reads) or not reads
        risky += sum(sum(read.by_split.values()) for read in reads if read.is_risky)
    late = Figure(0, "by plan" if has_state and any(_watermark_ms(logged[at]) for at in numbers) else "exact")
    if has_state and risky:
        late = Figure(risky, "at most")
        missing.append("how many rows were late in batches for which Spark's watermark was ahead of the plan")
    open_ = (state or Figure(None)) if has_state else NO_ROWS
    return balanced(
        batches=(numbers[0], numbers[-1]) if numbers else None,
        sources=sources,
        late=late,
        open_=Figure(open_.rows, "at most") if has_state and min(logged) else open_,
        missing=missing,
        why=[_NOT_TOLD],
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What a batch reads of a source, and Spark's watermark for it."""

    begin: Offset
    end: Offset
    watermark_ms: int

    @property
    def by_split(self) -> dict[SplitId, int]:
        return {split: rows for split, rows in rows_by_split(self.begin, self.end).items() if rows}

    @property
    def moves(self) -> bool:
        return self.begin.progress.positions != self.end.progress.positions

    @property
    def is_risky(self) -> bool:
        """Whether Spark's watermark may be past a row."""
        before_ms = self.begin.progress.watermark_ms
        ahead_ms = 0 if self.end.windows is None else AHEAD_MS
        is_behind = not self.watermark_ms or (before_ms is not None and self.watermark_ms <= before_ms + ahead_ms)
        return not is_behind or bool(self.begin.progress.late or self.end.progress.late)


def _source(place: int, reads: Sequence[_Read]) -> SourceAccount:
    """Return the share of a source.  The next batch reports the bad records of one."""
    if not reads:
        return SourceAccount(f"source {place} (not tidegate's)", Figure(None))
    first, last = reads[0], reads[-1]
    by_split = sum((Counter(read.by_split) for read in reads), Counter[SplitId]())
    rows = by_split.total() if last.end.source == KafkaSource.connector else None
    return SourceAccount(
        f"source {place} ({last.end.source})",
        Figure(rows, "at most"),  # some offsets have no record
        Figure(last.end.bad_records - first.end.bad_records, "at least" if last.moves else "exact"),
        by_split,
    )


def _reads(logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], place: int) -> list[_Read]:
    reads = []
    for number in numbers:
        end, before = logged[number].ours(place), logged.get(number - 1)
        if end is not None:
            begin = None if before is None else before.ours(place)
            reads.append(_Read(begin or Offset(), end, _watermark_ms(logged[number])))
    return reads


def _watermark_ms(logged: LoggedOffsets) -> int:
    return int(logged.notes.get("batchWatermarkMs", 0))
