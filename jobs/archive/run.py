"""Runs ``tidegate archive``: copies closed ranges of topics to an archive, on Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tidegate.errors import OptionError, counted
from tidegate.jobs.archive.pieces import Copied, Piece, copy, plan_archive
from tidegate.jobs.figures import count
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.readers.archive.place import ArchivePlace
from tidegate.readers.bad_records.files import check_location
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.session.single_source import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_archive"]

_ISOLATION = "isolation.level"


def run_archive(
    bootstrap_servers: str,
    topics: Sequence[str],
    out: str,
    *,
    kafka: Mapping[str, str],
    kafka_properties: Path | None = None,
    master: str = "local[*]",
) -> None:
    """Copy what Kafka holds now and the archive lacks, and print what was done.

    Raises a TidegateError for wrong arguments, for topics that cannot be read and for a place that cannot be written.
    Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    errors, output = Console(stderr=True, soft_wrap=True, highlight=False), Console(soft_wrap=True, highlight=False)
    source, place = _source(bootstrap_servers, topics, kafka, kafka_properties), _place(out)
    with ends_on_signals():
        plan = plan_archive(source, place)
        for split, first, last in plan.lost:
            errors.print(f"{split}: Kafka deleted offsets {first} to {last} before they were archived")
        copied: list[Copied] = []
        if plan.pieces:
            errors.print(f"Starting Spark for {counted(len(plan.pieces), 'object')}")
            with tempfile.NamedTemporaryFile(prefix="tidegate-archive-", suffix=".log", delete=False) as log:
                path = Path(log.name)
            with spark_session(master, "tidegate archive", path) as spark:
                copied = copy_pieces(spark, plan.pieces)
            path.unlink()
    objects, partitions = counted(len(copied), "object"), counted(plan.partitions, "partition")
    records, size = sum(c.records for c in copied), sum(c.bytes for c in copied)
    output.print(f"{count(records)} records of {partitions} archived: {objects}, {count(size)} bytes, in {out}")


def copy_pieces(spark: SparkSession, pieces: Collection[Piece]) -> list[Copied]:
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
