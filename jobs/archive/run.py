"""Runs ``tidegate archive``: copies closed ranges of topics to an archive, on Spark."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from tidegate.errors import OptionError, counted
from tidegate.jobs.archive.pieces import ArchivePlan, Copied, Lost, Margin, Piece, copy, plan_archive
from tidegate.jobs.figures import count, span
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.readers.archive.place import ArchivePlace
from tidegate.readers.bad_records.files import check_location
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
    margin: how far Kafka's retention was behind the archive when the run began; None: it cannot be told.
    """

    objects: int
    records: int
    bytes: int
    partitions: int
    lost: list[Lost]
    margin: Margin | None


def archive(
    spark: SparkSession,
    *,
    bootstrap_servers: str,
    topics: Sequence[str],
    out: str,
    kafka: Mapping[str, str] | None = None,
) -> Archived:
    """Copy what Kafka holds now and an archive lacks, as ``tidegate archive`` does; for a job with its own trigger.

    out: a folder that all executors share, or ``s3://bucket/prefix``.
    kafka: properties of the client.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    """
    plan = plan_archive(_source(bootstrap_servers, topics, kafka or {}, None), _place(out))
    return _archived(plan, copy_pieces(spark, plan.pieces))


def run_archive(
    bootstrap_servers: str,
    topics: Sequence[str],
    out: str,
    *,
    for_ever: bool,
    kafka: Mapping[str, str],
    kafka_properties: Path | None = None,
    master: str = "local[*]",
) -> None:
    """Copy what Kafka holds now and the archive lacks, and print what was done.

    for_ever: do it again every hour.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    source, place = _source(bootstrap_servers, topics, kafka, kafka_properties), _place(out)
    with ends_on_signals():
        while True:
            begun_s = time.monotonic()
            _run_once(source, place, master)
            if not for_ever:
                return
            _pause(EVERY_S - (time.monotonic() - begun_s))


def _pause(seconds: float) -> None:
    time.sleep(max(0.0, seconds))


def _run_once(source: KafkaSource, place: ArchivePlace, master: str) -> None:
    errors, output = Console(stderr=True, soft_wrap=True, highlight=False), Console(soft_wrap=True, highlight=False)
    plan = plan_archive(source, place)
    for split, first, last in plan.lost:
        errors.print(f"{split}: Kafka deleted offsets {first} to {last} before they were archived")
    if plan.margin is not None:
        errors.print(f"{plan.margin.split_id}: Kafka's retention is {span(plan.margin.ms)} behind the archive")
    copied: list[Copied] = []
    if plan.pieces:
        errors.print(f"Starting Spark for {counted(len(plan.pieces), 'object')}")
        with tempfile.NamedTemporaryFile(prefix="tidegate-archive-", suffix=".log", delete=False) as log:
            path = Path(log.name)
        with spark_session(master, "tidegate archive", path) as spark:
            copied = copy_pieces(spark, plan.pieces)
        path.unlink()
    done = _archived(plan, copied)
    objects, partitions = counted(done.objects, "object"), counted(done.partitions, "partition")
    size = count(done.bytes)
    output.print(
        f"{count(done.records)} records of {partitions} archived: {objects}, {size} bytes, in {place.location}"
    )


def _archived(plan: ArchivePlan, copied: Collection[Copied]) -> Archived:
    records, size = sum(c.records for c in copied), sum(c.bytes for c in copied)
    return Archived(len(copied), records, size, plan.partitions, plan.lost, plan.margin)


def copy_pieces(spark: SparkSession, pieces: Collection[Piece]) -> list[Copied]:
    """Copy pieces by one Spark task each.  Raises Spark's error of the first task that fails."""
    if not pieces:
        return []
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
