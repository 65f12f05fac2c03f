"""``tidegate account``: the account of a query from outside, by its checkpoint.

Spark stores no metrics there.  On the driver's machine, notes have what Spark reported of each batch.  Other batches
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
from typing import NamedTuple

import typer

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import OptionError, ServerError
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
from tidegate.jobs.account.of_progress import (
    UNKNOWN_BAD,
    RunTally,
    by_name,
    open_rows,
    rows_by_split,
    rows_in_state,
    skips,
)
from tidegate.jobs.session import spark_session
from tidegate.jobs.spark_checkpoint import BatchLogs, LoggedOffsets, name_order, open_checkpoint, query_id
from tidegate.readers.s3.config import local_path, s3_address
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.listener import KeptBatches, kept_batches
from tidegate.sources.progress.query import QueryProgress, SourceBatch
from tidegate.windows.spark.native import AHEAD_MS

_DELETED = "the batches up to {}, which the checkpoint no longer has (spark.sql.streaming.minBatchesToRetain)"


def run_account(checkpoint: str, *, as_json: bool) -> None:
    """Print the account of a query, for the batches that its checkpoint still has.

    checkpoint: a path or ``s3://bucket/prefix``.

    If Spark, which counts the rows in open windows, does not start, they are unknown.

    Raises OptionError, one sentence, if it is not such a checkpoint, and ConnectorError if it cannot be read.
    """
    folder = open_checkpoint(checkpoint, "CHECKPOINT")
    logged, operators = written_batches(folder), folder.within("state").folders()
    identity = query_id(folder)
    # Read after the batches, of which Spark tells once they are written.
    found = {} if identity is None else kept_batches(identity)
    account = account_of_checkpoint(logged, found, has_state=bool(operators))
    first, last = account.batches or (0, -1)
    plans = {found[number].plan if number in found else None for number in range(first, last + 1)}
    plan = plans.pop() if len(plans) == 1 else None
    is_countable = len(operators) == 1 and (plan is None or plan.counts_open)
    # Spark alone would need Hadoop's jars for a bucket.
    if account.open.bound != "exact" and is_countable and s3_address(checkpoint) is None:
        typer.echo("Starting Spark, which counts the rows in open windows", err=True)
        try:
            with (
                TemporaryDirectory(prefix="tidegate-account-") as work,
                spark_session("local[2]", "tidegate account", Path(work) / "spark.log") as spark,
            ):
                state = rows_in_state(spark, str(local_path(checkpoint)), plan, None if last < 0 else last)
            account = account_of_checkpoint(logged, found, state, has_state=True)
        except ServerError as error:
            typer.echo(f"The rows in open windows are unknown: {error}", err=True)
    typer.echo(json.dumps(account.to_json()) if as_json else str(account))


def written_batches(folder: Folder) -> dict[int, LoggedOffsets]:
    """Return the batches that a checkpoint still has, and that are written.  Raises OptionError without any."""
    logs = BatchLogs.read(folder)
    if not logs.written:
        raise OptionError(f"CHECKPOINT is {folder.address}, which holds no checkpoint with a written batch")
    return {number: logged for number, logged in logs.written.items() if number not in logs.skipped}


def account_of_checkpoint(
    logged: Mapping[int, LoggedOffsets], found: KeptBatches, state: Figure | None = None, *, has_state: bool
) -> Account:
    """Return the account of written batches.

    found: what Spark reported of the query's batches on this machine.
    state: the rows in Spark's state of windows after the last batch, if they are counted.
    has_state: whether Spark has state.

    Raises CheckpointError for an offset of another version of tidegate.
    """
    numbers = [number for number in logged if number == 0 or number - 1 in logged]
    missing = [_DELETED.format(min(logged))] if min(logged) else []
    parts = _reported_parts(logged, numbers, found)
    heard = {entry.number for part in parts for entry in part.entries}
    if len(numbers) > 1 and numbers[-2] in heard and numbers[-1] not in found:
        missing.append(f"what became of batch {numbers.pop()}, which Spark has not reported yet")
    unreported = [number for number in numbers if number not in heard]
    if unreported and any(part.uses_one_twice for part in parts):
        parts, unreported = [], numbers  # their sources cannot be added up
    tally = RunTally()
    for at, part in enumerate(parts):
        for entry in part.entries:
            tally.add(entry, at, part.names)
    shares = [_by_plan(logged, unreported, has_state=has_state)] if unreported else []
    shares += [tally.share()] if parts else []
    has_state = has_state if unreported[-1:] == numbers[-1:] else tally.has_state
    if unreported and any(
        progress.bad_records_total is not None for entry in found.values() for progress in entry.source_progress
    ):
        missing.append(UNKNOWN_BAD)
    named = by_name(share.sources for share in shares)
    return balanced(
        batches=(numbers[0], numbers[-1]) if numbers else None,
        sources=[added(named[name]) for name in sorted(named, key=name_order)],
        late=total(share.late for share in shares),
        open_=open_rows(min(logged), state, has_state=has_state),
        missing=[*dict.fromkeys([*missing, *(sentence for share in shares for sentence in share.missing)])],
    )


class _Part(NamedTuple):
    """Batches of a run, without a gap, that Spark reported.

    names: of their sources, in Spark's order, which is not that of the log.
    uses_one_twice: the log has more sources than the query: a DataFrame that is used twice has two numbers.
    """

    entries: Sequence[QueryProgress]
    names: Sequence[str]
    uses_one_twice: bool


def _reported_parts(logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], found: KeptBatches) -> list[_Part]:
    """Return the batches that Spark reported, but no part that leaves out a source, or that is of a copy."""
    known = [
        (found[number], of_sources)
        for number in numbers
        if number in found and all(of_sources := _possible_names(found[number], logged.get(number - 1), logged[number]))
    ]
    parts = []
    for _, group in groupby(enumerate(known), lambda at: (at[1][0].run_id, at[1][0].number - at[0])):
        of_run = [known_batch for _, known_batch in group]
        entries = [entry for entry, _ in of_run]
        possible = zip(*(of_sources for _, of_sources in of_run), strict=True)
        names = _distinct([set.intersection(*of_source) for of_source in possible])
        if len(names) == len(entries[0].sources) and _is_reported(entries):
            parts.append(_Part(entries, names, len(names) < len(logged[entries[0].number].sources)))
    return parts


def _possible_names(entry: QueryProgress, before: LoggedOffsets | None, logged: LoggedOffsets) -> list[set[str]]:
    """Return the names that each source of a progress may have in the log, by the offsets of the batch.

    A source has no such name if the progress is of a batch in a copy of the checkpoint.
    """
    each, places = logged.by_name, [*logged.by_name]
    has_places = all(map(str.isdecimal, places)) and len(places) == len(entry.sources)

    def fits(batch: SourceBatch, name: str) -> bool:
        if batch.end is None:
            return has_places or each[name].value == batch.stored
        return (batch.begin, batch.end) == (_begin(before, name), logged.ours(name))

    return [
        {name for name in (places[at : at + 1] if has_places else places) if fits(batch, name)}
        for at, batch in enumerate(entry.sources)
    ]


def _distinct(possible: Sequence[set[str]]) -> list[str]:
    """Return a name for each source, so that no two have the same."""
    names: list[str] = []
    for one in possible:
        names += sorted(one.difference(names), key=name_order)[:1]
    return names


def _is_reported(part: Sequence[QueryProgress]) -> bool:
    """Return whether each source of tidegate has reported."""
    sources = [(at, batch) for entry in part for at, batch in enumerate(entry.sources)]
    heard = {at for at, batch in sources if batch.end is None or batch.progress is not None}
    return len(heard) == len(part[0].sources)


def _by_plan(logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], *, has_state: bool) -> BatchesAccount:
    """Return the share of some batches that Spark did not report."""
    names = dict.fromkeys(name for number in numbers for name in logged[number].by_name)
    reads_of = {name: _reads(logged, numbers, name) for name in names}
    sources = {name: _source(name, reads) for name, reads in reads_of.items()}
    missing = [sentence for reads in reads_of.values() for read in reads for sentence in skips(read.begin, read.end)]
    missing += [
        f"how many rows of {source.reads} were read: only offsets of Kafka tell"
        for source in sources.values()
        if source.read.rows is None
    ]
    late = total(_late(sources[name], reads) for name, reads in reads_of.items())
    if not has_state or not any(logged[number].watermark_ms for number in numbers):
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
        ahead_ms = AHEAD_MS if self.end.add_ons else 0
        is_behind = not self.watermark_ms or (before_ms is not None and self.watermark_ms <= before_ms + ahead_ms)
        return self.moves and (not is_behind or bool(self.begin.progress.late or self.end.progress.late))


def _source(name: str, reads: Sequence[_Read]) -> SourceAccount:
    """Return the share of a source."""
    if not reads:
        return SourceAccount(f"source {name} (not tidegate's)", Figure(None))
    connector = reads[-1].end.source
    by_split = sum((Counter(read.by_split) for read in reads), Counter[SplitId]())
    rows = by_split.total() if connector == KafkaSource.connector else None
    return SourceAccount(
        f"source {name} ({connector})",
        Figure(rows, "at most"),  # some offsets have no record
        total(read.set_aside for read in reads),
        by_split,
        Figure(0, "at least"),  # only Spark's report says whether the source has a condition
    )


def _late(source: SourceAccount, reads: Sequence[_Read]) -> Figure:
    """Return how many rows of a source may be late; no number, if its rows are not known."""
    risky = [read for read in reads if read.is_risky]
    if reads and not risky:
        return NO_ROWS
    return Figure(None if source.read.rows is None else sum(sum(read.by_split.values()) for read in risky), "at most")


def _reads(logged: Mapping[int, LoggedOffsets], numbers: Sequence[int], name: str) -> list[_Read]:
    reads = []
    for number in numbers:
        if (end := logged[number].ours(name)) is not None:
            begin, later = _begin(logged.get(number - 1), name), logged.get(number + 1)
            reads.append(_Read(begin, end, None if later is None else later.ours(name), logged[number].watermark_ms))
    return reads


def _begin(before: LoggedOffsets | None, name: str) -> Offset:
    return (None if before is None else before.ours(name)) or Offset()
