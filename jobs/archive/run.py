"""Runs ``tidegate archive``: copies closed ranges of topics to an archive, on Spark."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from tidegate.errors import OptionError, counted
from tidegate.jobs.archive.compaction import delete_merged, merges_of
from tidegate.jobs.archive.pieces import ArchivePlan, Copied, Lost, Margin, Merge, Piece, copy, plan_archive
from tidegate.jobs.figures import count, span
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.readers.archive.place import ArchivePlace
from tidegate.readers.bad_records.files import check_location
from tidegate.readers.kafka.config import TopicPartition
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.session.single_source import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Archived", "archive", "run_archive"]

EVERY_S = 3600.0
"""From the beginning of a run to that of the next one."""

_ISOLATION = "isolation.level"


class Archived(NamedTuple):
    """What a run has archived.

    lost: the offsets that Kafka had deleted before.
    merged, deleted: the objects that were merged into larger ones, and those that were merged a day ago and deleted.
    margin: how far Kafka's retention was behind the archive when the run began; None: it cannot be told.
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
    topics: Sequence[str],
    out: str,
    kafka: Mapping[str, str] | None = None,
    compact: bool = False,
) -> Archived:
    """Copy what Kafka holds now and an archive lacks, as ``tidegate archive`` does; for a job with its own trigger.

    out: a folder that all executors share, or ``s3://bucket/prefix``.
    kafka: properties of the client.
    compact: also merge small objects.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    """
    place = _place(out)
    plan = plan_archive(_source(bootstrap_servers, topics, kafka or {}, None), place)
    return _perform(plan, place, lambda: nullcontext(spark), compact=compact)


def run_archive(
    bootstrap_servers: str,
    topics: Sequence[str],
    out: str,
    *,
    for_ever: bool,
    compact: bool,
    kafka: Mapping[str, str],
    kafka_properties: Path | None = None,
    master: str = "local[*]",
) -> None:
    """Copy what Kafka holds now and the archive lacks, and print what was done.

    for_ever: do it again every hour.
    compact: also merge small objects.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    source, place = _source(bootstrap_servers, topics, kafka, kafka_properties), _place(out)
    with ends_on_signals():
        while True:
            begun_s = time.monotonic()
            _run_once(source, place, master, compact=compact)
            if not for_ever:
                return
            _pause(EVERY_S - (time.monotonic() - begun_s))


def _pause(seconds: float) -> None:
    time.sleep(max(0.0, seconds))


def _run_once(source: KafkaSource, place: ArchivePlace, master: str, *, compact: bool) -> None:
    errors, output = Console(stderr=True, soft_wrap=True, highlight=False), Console(soft_wrap=True, highlight=False)
    plan = plan_archive(source, place)
    for split, first, last in plan.lost:
        errors.print(f"{split}: Kafka deleted offsets {first} to {last} before they were archived")
    if plan.margin is not None:
        errors.print(f"{plan.margin.split_id}: Kafka's retention is {span(plan.margin.ms)} behind the archive")

    @contextmanager
    def session() -> Iterator[SparkSession]:
        errors.print("Starting Spark")
        with tempfile.NamedTemporaryFile(prefix="tidegate-archive-", suffix=".log", delete=False) as log:
            path = Path(log.name)
        with spark_session(master, "tidegate archive", path) as spark:
            yield spark
        path.unlink()

    done = _perform(plan, place, session, compact=compact)
    objects, partitions = counted(done.objects, "object"), counted(done.partitions, "partition")
    compacted = f"; {done.merged} merged, {done.deleted} deleted" if compact else ""
    output.print(
        f"{count(done.records)} records of {partitions} archived: {objects}, {count(done.bytes)} bytes, "
        f"in {place.location}{compacted}"
    )


def _perform(
    plan: ArchivePlan,
    place: ArchivePlace,
    session: Callable[[], AbstractContextManager[SparkSession]],
    *,
    compact: bool,
) -> Archived:
    directories = plan.directories
    merges = [merge for directory in directories.values() for merge in merges_of(place, directory)] if compact else []
    copied: list[Copied] = []
    if plan.pieces or merges:
        with session() as spark:
            copied = copy_pieces(spark, [*plan.pieces, *merges])[: len(plan.pieces)]
    deleted = sum(delete_merged(place, TopicPartition.of(split)) for split in directories) if compact else 0
    records, size = sum(c.records for c in copied), sum(c.bytes for c in copied)
    merged = sum(len(merge.parts) for merge in merges)
    return Archived(len(copied), records, size, len(directories), plan.lost, plan.margin, merged, deleted)


def copy_pieces(spark: SparkSession, pieces: Collection[Piece | Merge]) -> list[Copied]:
    """Copy pieces by one Spark task each.  Raises Spark's error of the first task that fails."""
    prepare(spark)
    return spark.sparkContext.parallelize(pieces, len(pieces)).map(copy).collect()


def _source(
    bootstrap_servers: str, topics: Sequence[str], kafka: Mapping[str, str], kafka_properties: Path | None
) -> KafkaSource:
    if kafka.get(_ISOLATION, "read_committed") != "read_committed":
        raise OptionError(f"--kafka {_ISOLATION} is {kafka[_ISOLATION]!r}, but only committed records are archived")
    file = {} if kafka_properties is None else {"kafkaProperties": str(kafka_properties)}
    return KafkaSource.from_options(
        {
            "kafka.bootstrap.servers": bootstrap_servers,
            "subscribe": ",".join(topics),
            "includeHeaders": "true",
            "badEventTime": "ignore",  # a record without a timestamp is archived like any other
            **file,
            **{f"kafka.{name}": value for name, value in kafka.items()},
            f"kafka.{_ISOLATION}": "read_committed",
        }
    )


def _place(out: str) -> ArchivePlace:
    try:
        return ArchivePlace(check_location(out))
    except ValueError as error:
        raise OptionError(f"--out is {out!r}: {error}") from None
