"""``tidegate account``: the account of a query from outside, by its checkpoint.

Spark stores no metrics there.  On the driver's machine, notes have what Spark told of each batch.  Other batches
have bounds.  For each batch Spark stores its watermark, and tidegate what the batch reads, and the watermark before
which nothing is left to read.  If Spark's is not greater, no row of the batch is late.  That holds if Spark's watermark
is of the source's event time, and if records keep to ``maxOutOfOrderness``: the account says ``by plan``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import OptionError
from tidegate.jobs.account.account import (
    NO_ROWS,
    Account,
    BatchesAccount,
    Figure,
    SourceAccount,
    added,
    balanced,
    total,
)
from tidegate.jobs.account.of_progress import UNKNOWN_BAD, RunTally, open_rows, rows_by_split, skips
from tidegate.jobs.account.query import rows_in_state
from tidegate.jobs.session import spark_session
from tidegate.jobs.spark_checkpoint import BatchLogs, LoggedOffsets, open_checkpoint, query_id
from tidegate.readers.s3.address import local_path, s3_address
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import QueryProgress
from tidegate.sources.progress.told import Told, told
from tidegate.sources.windows.native import AHEAD_MS

_DELETED = "the batches up to {}, which the checkpoint no longer has (spark.sql.streaming.minBatchesToRetain)"


def run_account(checkpoint: str, *, as_json: bool) -> None:
    """Print the account of a query, for the batches that its checkpoint still has.

    checkpoint: a path or ``s3://bucket/prefix``.

    Raises OptionError, one sentence, if it is no such checkpoint, ConnectorError if it cannot be read, and ServerError
    if Spark, which counts the rows in open windows, does not start.
    """
    folder = open_checkpoint(checkpoint, "CHECKPOINT")
    logged, operators = written_batches(folder), folder.within("state").folders()
    identity = query_id(folder)
    # Read after the batches, of which Spark tells once they are written.
    found = {} if identity is None else told(identity)
    account = account_of_checkpoint(logged, found, has_state=bool(operators))
    first, last = account.batches or (0, -1)
    plans = {found[number].plan if number in found else None for number in range(first, last + 1)}
    plan = plans.pop() if len(plans) == 1 else None
    is_countable = len(operators) == 1 and (plan is None or plan.counts_open)
    # Spark alone would need Hadoop's jars for a bucket.
    if account.open.bound != "exact" and is_countable and s3_address(checkpoint) is None:
        typer.echo("Starting Spark, which counts the rows in open windows", err=True)
        with (
            TemporaryDirectory(prefix="tidegate-account-") as work,
            spark_session("local[2]", "tidegate account", Path(work) / "spark.log") as spark,
        ):
            state = rows_in_state(spark, str(local_path(checkpoint)), plan, None if last < 0 else last)
        account = account_of_checkpoint(logged, found, state, has_state=True)
    typer.echo(json.dumps(account.to_json()) if as_json else str(account))


def written_batches(folder: Folder) -> dict[int, LoggedOffsets]:
    """Return the batches that a checkpoint still has, and that are written.  Raises OptionError if there is none."""
    logged = BatchLogs.read(folder).written
    if not logged:
        raise OptionError(f"CHECKPOINT is {folder.address}, which is no checkpoint with a written batch")
    return logged


def account_of_checkpoint(
    logged: Mapping[int, LoggedOffsets], found: Told, state: Figure | None = None, *, has_state: bool
) -> Account:
    """Return the account of written batches.

    found: what Spark told of the query's batches on this machine.
    state: the rows in Spark's state of windows after the last batch, if they are counted.
    has_state: whether Spark has state.

    Raises CheckpointError for an offset of another version of tidegate.
    """
    numbers = [number for number in logged if number == 0 or number - 1 in logged]
    missing = [_DELETED.format(min(logged))] if min(logged) else []
    parts = _told_parts(logged, numbers, found)
    heard = {entry.number for part in parts for entry in part}
    if len(numbers) > 1 and numbers[-2] in heard and numbers[-1] not in found:
        missing.append(f"what became of batch {numbers.pop()}, of which Spark has not told")
    untold = [number for number in numbers if number not in heard]
    places = sorted(logged[max(logged)].by_place)
    if len({len(part[0].sources) for part in parts} | ({len(places)} if untold else set())) > 1:
        parts, untold = [], numbers  # their sources cannot be added up
    tally = RunTally()
    for at, part in enumerate(parts):
        for entry in part:
            tally.add(entry, at)
    shares = [_by_plan(logged, untold, places, has_state=has_state)] if untold else []
    shares += [tally.share()] if parts else []
    has_state = has_state if untold[-1:] == numbers[-1:] else tally.has_state
    if untold and any(said.bad_records_total is not None for entry in found.values() for said in entry.source_progress):
        missing.append(UNKNOWN_BAD)
    return balanced(
        batches=(numbers[0], numbers[-1]) if numbers else None,
        sources=[added(of_source) for of_source in zip(*(share.sources for share in shares), strict=True)],
        late=total(share.late for share in shares),
        open_=open_rows(min(logged), state, has_state=has_state),
        missing=[*dict.fromkeys([*missing, *(sentence for share in shares for sentence in share.missing)])],
    )


def _told_parts(logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], found: Told) -> list[list[QueryProgress]]:
    """Return the batches of which Spark told, in parts of runs without a gap, but no part that leaves out a source."""
    told = [(found[number], number) for number in numbers if number in found]
    entries = [entry for entry, number in told if _is_of(entry, logged.get(number - 1), logged[number])]
    groups = groupby(enumerate(entries), lambda at: (at[1].run_id, at[1].number - at[0]))
    return [part for _, group in groups if _has_told(part := [entry for _, entry in group])]


def _is_of(entry: QueryProgress, before: LoggedOffsets | None, logged: LoggedOffsets) -> bool:
    """Return whether a progress is of a logged batch, and not of one in a copy of the checkpoint."""
    places = sorted(logged.by_place)
    ranges = [(_begin(before, place), logged.ours(place)) for place in places]
    # A DataFrame that is used twice is one source with two places.
    is_placed = len(places) == len(entry.sources)
    return all(
        (batch.begin, batch.end) in (ranges[at : at + 1] if is_placed else ranges)
        for at, batch in enumerate(entry.sources)
        if batch.end is not None
    )


def _has_told(part: Sequence[QueryProgress]) -> bool:
    """Return whether all batches have the same sources, and each source of tidegate has told of itself."""
    sources = [(at, batch) for entry in part for at, batch in enumerate(entry.sources)]
    heard = {at for at, batch in sources if batch.end is None or batch.progress is not None}
    return all(heard == {*range(len(entry.sources))} for entry in part)


def _by_plan(
    logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], places: Sequence[int], *, has_state: bool
) -> BatchesAccount:
    """Return the share of some batches without what Spark told, for the sources at these places."""
    by_place = {place: _reads(logged, numbers, place) for place in places}
    sources = [_source(place, reads) for place, reads in by_place.items()]
    missing = [said for reads in by_place.values() for read in reads for said in skips(read.begin, read.end)]
    missing += [
        f"how many rows of {source.reads} were read: only offsets of Kafka tell"
        for source in sources
        if source.read.rows is None
    ]
    late = total(_late(source, reads) for source, reads in zip(sources, by_place.values(), strict=True))
    if not has_state or not any(_watermark_ms(logged[number]) for number in numbers):
        late = NO_ROWS
    elif late.rows != 0:
        missing.append("how many rows were late in batches for which Spark's watermark was ahead of the plan")
    else:
        late = Figure(0, "by plan")
    return BatchesAccount(sources, late, missing)


@dataclass(frozen=True, slots=True)
class _Read:
    """What a batch reads of a source, and Spark's watermark for it.

    later: the offset after the next batch, if it is known, which reports the bad records of this one.
    """

    begin: Offset
    end: Offset
    later: Offset | None
    watermark_ms: int

    @property
    def by_split(self) -> dict[SplitId, int]:
        return {split: rows for split, rows in rows_by_split(self.begin, self.end).items() if rows}

    @property
    def set_aside(self) -> Figure:
        known = 0 if self.later is None else self.later.bad_records - self.end.bad_records
        return Figure(known, "at least" if self.moves else "exact")  # a kill loses what executors reported

    @property
    def moves(self) -> bool:
        return self.begin.progress.positions != self.end.progress.positions

    @property
    def is_risky(self) -> bool:
        """Whether Spark's watermark may be past a row."""
        before_ms = self.begin.progress.watermark_ms
        ahead_ms = 0 if self.end.windows is None else AHEAD_MS
        is_behind = not self.watermark_ms or (before_ms is not None and self.watermark_ms <= before_ms + ahead_ms)
        return self.moves and (not is_behind or bool(self.begin.progress.late or self.end.progress.late))


def _source(place: int, reads: Sequence[_Read]) -> SourceAccount:
    """Return the share of a source."""
    if not reads:
        return SourceAccount(f"source {place} (not tidegate's)", Figure(None))
    connector = reads[-1].end.source
    by_split = sum((Counter(read.by_split) for read in reads), Counter[SplitId]())
    rows = by_split.total() if connector == KafkaSource.connector else None
    return SourceAccount(
        f"source {place} ({connector})",
        Figure(rows, "at most"),  # some offsets have no record
        total(read.set_aside for read in reads),
        by_split,
    )


def _late(source: SourceAccount, reads: Sequence[_Read]) -> Figure:
    """Return how many rows of a source may be late; no number, if its rows are not known."""
    risky = [read for read in reads if read.is_risky]
    if reads and not risky:
        return NO_ROWS
    return Figure(None if source.read.rows is None else sum(sum(read.by_split.values()) for read in risky), "at most")


def _reads(logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], place: int) -> list[_Read]:
    reads = []
    for number in numbers:
        if (end := logged[number].ours(place)) is not None:
            begin, later = _begin(logged.get(number - 1), place), logged.get(number + 1)
            reads.append(_Read(begin, end, None if later is None else later.ours(place), _watermark_ms(logged[number])))
    return reads


def _begin(before: LoggedOffsets | None, place: int) -> Offset:
    return (None if before is None else before.ours(place)) or Offset()


def _watermark_ms(logged: LoggedOffsets) -> int:
    return int(logged.notes.get("batchWatermarkMs") or 0)
