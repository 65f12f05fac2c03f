"""Runs ``tidegate archive``: copies closed ranges of topics to an archive, on Spark."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from tidegate.errors import ConnectorError, OptionError, TidegateError, counted, did_you_mean
from tidegate.jobs.archive.pieces import (
    ArchivePlan,
    Copied,
    Lost,
    Margin,
    MergedObject,
    Piece,
    copy,
    delete_merged,
    merges_of,
    plan_archive,
)
from tidegate.jobs.archive.tables import TablePiece, TargetTable, WrittenFile, accepted, target_table
from tidegate.jobs.arguments import parse_time, topic_options
from tidegate.jobs.figures import count, span
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.places.place import Place, check_location
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.options import without_login
from tidegate.sources.progress.query import check_session
from tidegate.sources.session import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EVERY_S = 3600.0
"""From the beginning of a run to that of the next one."""

_ISOLATION, _COMMITTED, _LATEST = "isolation.level", "read_committed", "latest"
_FIRST = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Archived(NamedTuple):
    """What a run has archived.

    lost: the offsets that Kafka had deleted before.
    merged, deleted: the objects that were merged into larger ones, and those that were merged a day ago and deleted.
    margin: how far Kafka's retention was behind the archive when the run began; None: unknown.
    """

    objects: int
    records: int
    bytes: int
    partitions: int
    lost: list[Lost]
    margin: Margin | None
    merged: int
    deleted: int


def archive(
    spark: SparkSession,
    *,
    bootstrap_servers: str,
    topics: str | Sequence[str],
    out: str,
    until: datetime | None = None,
    kafka: Mapping[str, str] | None = None,
    compact: bool = False,
) -> Archived:
    """Copy what Kafka holds now and an archive lacks, as ``tidegate archive`` does; for a job with its own trigger.

    out: a folder that all executors share, or ``s3://bucket/prefix``; ``delta:`` and one of these, or
        ``iceberg:catalog.namespace.table``: a table; a missing one is made.
    topics: their names; a text names one, or several that are separated by commas.
    until: end each partition before its first record at or after this time, which has a zone; None: at its present end.
    kafka: properties of the client.
    compact: also merge small objects.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    Raises ConnectorError if some objects failed; the others are written first.
    """
    place = _target(out, compact=compact)
    named = {"kafka.bootstrap.servers": bootstrap_servers} | {f"kafka.{name}": v for name, v in (kafka or {}).items()}
    named["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    source = _source(named, until)
    _check_classic(spark)
    plan = plan_archive(source, place)
    done, failure = _perform(plan, place, lambda: nullcontext(spark), compact=compact)
    if failure is not None:
        raise failure
    return done


def _check_classic(spark: SparkSession) -> None:
    check_session(spark)
    if getattr(spark, "sparkContext", None) is None:
        raise OptionError(
            "archive() copies in tasks of a classic session, which Spark Connect does not run: "
            "build the session without remote(), or run `tidegate archive`"
        )


def run_archive(of_kafka: Mapping[str, Any], out: str, *, until: str | None, compact: bool, master: str) -> None:
    """Copy what Kafka holds now and the archive lacks, and print what was done.

    of_kafka: the options for Kafka; None or empty: not given.
    until: ``latest``, or a time before whose first record each partition ends; None: do it again every hour.
    compact: also merge small objects.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    Raises ConnectorError if some objects failed; without ``until``, prints it, and tries again an hour later.
    Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    source, place = _source(topic_options(of_kafka), _end(until)), _target(out, compact=compact)
    with ends_on_signals():
        while True:
            begun_s = time.monotonic()
            failure = _run_once(source, place, master, compact=compact)
            if until is not None:
                break
            if failure is not None:
                typer.echo(failure, err=True)
            _pause(EVERY_S - (time.monotonic() - begun_s))
    if failure is not None:
        raise failure


def _pause(seconds: float) -> None:
    time.sleep(max(0.0, seconds))  # the rest of the hour itself; a signal ends it


def _run_once(source: KafkaSource, place: Place | TargetTable, master: str, *, compact: bool) -> ConnectorError | None:
    plan = plan_archive(source, place)
    for split, first, last in plan.lost:
        typer.echo(f"{split}: Kafka deleted offsets {first} to {last} before they were archived", err=True)
    if plan.margin is not None:
        typer.echo(f"{plan.margin.split_id}: Kafka's retention is {span(plan.margin.ms)} behind the archive", err=True)

    @contextmanager
    def session() -> Iterator[SparkSession]:
        typer.echo("Starting Spark", err=True)
        with tempfile.NamedTemporaryFile(prefix="tidegate-archive-", suffix=".log", delete=False) as log:
            path = Path(log.name)
        with spark_session(master, "tidegate archive", path) as spark:
            yield spark
        path.unlink()

    done, failure = _perform(plan, place, session, compact=compact)
    objects, partitions = counted(done.objects, "object"), counted(done.partitions, "partition")
    compacted = f"; {done.merged} merged, {done.deleted} deleted" if compact else ""
    typer.echo(
        f"{count(done.records)} records of {partitions} archived: {objects}, {count(done.bytes)} bytes, "
        f"in {place.location}{compacted}"
    )
    return failure


def _perform(
    plan: ArchivePlan,
    place: Place | TargetTable,
    session: Callable[[], AbstractContextManager[SparkSession]],
    *,
    compact: bool,
) -> tuple[Archived, ConnectorError | None]:
    """Write all objects that can be written, and return what was done, and the error of those that failed."""
    directories = plan.directories
    merges: list[MergedObject] = []
    if compact and isinstance(place, Place):
        merges = [merge for directory in directories.values() for merge in merges_of(place, directory)]
    objects: list[Any] = [*plan.pieces, *merges]
    outcomes: list[Any] = []
    if objects:
        with session() as spark:
            outcomes = copy_all(spark, objects)
    copies, merged = outcomes[: len(plan.pieces)], outcomes[len(plan.pieces) :]
    if isinstance(place, TargetTable):
        written = _commit(place, plan.pieces, copies)
    else:
        written = [outcome for outcome in copies if isinstance(outcome, Copied)]
    deleted = 0
    if compact and isinstance(place, Place):
        deleted = sum(delete_merged(place, TopicPartition.of(split)) for split in directories)
    parts = sum(len(merge.parts) for merge, outcome in zip(merges, merged, strict=True) if isinstance(outcome, Copied))
    records, size = sum(c.records for c in written), sum(c.bytes for c in written)
    done = Archived(len(written), records, size, len(directories), plan.lost, plan.margin, parts, deleted)
    return done, _failure(outcomes)


def _commit(table: TargetTable, pieces: Sequence[Any], outcomes: Sequence[Any]) -> list[Any]:
    """Add the files of pieces to a table, and return those with records."""
    copied = [outcome if isinstance(outcome, WrittenFile) else None for outcome in outcomes]
    files = accepted(zip(pieces, copied, strict=True))
    if files:
        table.commit(files)
    return [file for file in files if file.records]


def copy_all(
    spark: SparkSession, pieces: Sequence[Piece | MergedObject | TablePiece]
) -> list[Copied | WrittenFile | TidegateError]:
    """Copy pieces by one Spark task each; one that fails does not hold up the others."""
    prepare(spark)
    return spark.sparkContext.parallelize(pieces, len(pieces)).map(_copied).collect()


def _copied(piece: Piece | MergedObject | TablePiece) -> Copied | WrittenFile | TidegateError:
    try:
        return piece.copy() if isinstance(piece, TablePiece) else copy(piece)
    except TidegateError as error:
        return error


def _failure(outcomes: Sequence[Copied | WrittenFile | TidegateError]) -> ConnectorError | None:
    errors = [outcome for outcome in outcomes if isinstance(outcome, TidegateError)]
    if not errors:
        return None
    written = f"{len(errors)} of {counted(len(outcomes), 'object')} could not be written"
    return ConnectorError(f"{written}; the first: {errors[0]}")


def _end(until: str | None) -> datetime | None:
    try:
        return None if until == _LATEST else parse_time("--until", until)
    except OptionError as error:
        raise OptionError(f"{error}, or {_LATEST}{did_you_mean(str(until), [_LATEST])}") from None


def _source(named: Mapping[str, str], until: datetime | None) -> KafkaSource:
    """Return the source of the topics that some options name."""
    if (level := named.get(f"kafka.{_ISOLATION}", _COMMITTED)) != _COMMITTED:
        raise OptionError(f"{_ISOLATION} is {level!r}, but only committed records are archived")
    if until is not None and (until.tzinfo is None or until < _FIRST):
        raise OptionError(f"until is {until.isoformat()}, but a time with a zone is expected, in 1970 or later")
    return KafkaSource.from_options(
        {
            **named,
            f"kafka.{_ISOLATION}": _COMMITTED,
            "includeHeaders": "true",
            "badEventTime": "ignore",  # a record without a timestamp is archived like any other
            **({} if until is None else {"endingTimestamp": until.isoformat()}),
        }
    )


def _target(out: str, *, compact: bool) -> Place | TargetTable:
    if (table := target_table(out)) is None:
        return _place(out)
    if compact:
        raise OptionError(
            f"--compact is for folders of objects, and --out is {out!r}: let the table's owner rewrite it"
        )
    return table


def _place(out: str) -> Place:
    try:
        return Place(check_location(out))
    except ValueError as error:
        raise OptionError(f"--out is {without_login(out)!r}: {error}") from None
