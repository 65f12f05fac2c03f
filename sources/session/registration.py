"""Makes sources known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.errors import OptionError
from tidegate.sources.bridge import data_source_class
from tidegate.sources.contract import Source
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.s3.source import S3Source
from tidegate.sources.session.single_source import prepare

__all__ = ["register"]

_SOURCES: tuple[type[Source], ...] = (KafkaSource, S3Source)


def register(spark: SparkSession, *others: type[Source]) -> None:
    """Register every source of tidegate with the session, as ``tidegate_kafka`` and so on.

    others: connectors of your own; one with ``connector = "outbox"`` becomes ``tidegate_outbox``.

    Raises OptionError for a value that is no class of a source.

    Call it once per session.  On a local master the Python workers then also run this interpreter.
    """
    for source in others:
        _check_class(source)
    driver = prepare(spark)
    for source in (*_SOURCES, *others):
        name = f"tidegate_{source.connector}"
        spark.dataSource.register(data_source_class(name, source.from_options, driver))


def _check_class(source: object) -> None:
    if isinstance(source, Source):
        name = type(source).__name__
        raise OptionError(f"register() takes the class {name}; a source of it needs no name: use its read_stream()")
    if not (isinstance(source, type) and issubclass(source, Source)):
        raise OptionError(f"register() takes classes of sources, and {source!r} is none")
