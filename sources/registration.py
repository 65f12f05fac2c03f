"""Makes sources known to a Spark session."""

from __future__ import annotations

import sys
import uuid

from pyspark.sql import SparkSession

from tidegate.sources.batch_listener import listen_to_batches
from tidegate.sources.bridge import Driver, data_source_class
from tidegate.sources.contract import Source
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.s3.source import S3Source
from tidegate.sources.session import use_unix_sockets

__all__ = ["register", "register_source"]

_SOURCES: tuple[type[Source], ...] = (KafkaSource, S3Source)


def register(spark: SparkSession, *others: type[Source]) -> None:
    """Register every source of tidegate with the session, as ``tidegate_kafka`` and so on.

    others: connectors of your own; one with ``connector = "outbox"`` becomes ``tidegate_outbox``.

    Call it once per session.  On a local master the Python workers then also run this interpreter.
    """
    driver = _prepare(spark)
    for source in (*_SOURCES, *others):
        name = f"tidegate_{source.connector}"
        spark.dataSource.register(data_source_class(name, source.from_options, driver))


def register_source(spark: SparkSession, source: Source) -> str:
    """Register one configured source under a name of its own, and return the name.

    The registered class carries the source by value; nothing of it stands in an option.
    """
    driver = _prepare(spark)
    name = f"tidegate_{source.connector}_{uuid.uuid4().hex[:12]}"
    spark.dataSource.register(data_source_class(name, lambda _: source, driver))
    return name


def _prepare(spark: SparkSession) -> Driver:
    """Return what planners need to know of the session."""
    context = getattr(spark, "sparkContext", None)
    is_local = context is not None and str(context.master).startswith("local")
    use_unix_sockets(spark, is_local=is_local)
    if context is None:
        # Spark Connect: the driver is another process, where no listener of ours can leave notes for planners.
        return Driver(_parallelism(spark), str(spark.conf.get("spark.app.id")))
    if is_local:
        # Python workers would take the python3 of the PATH, which need not be this one (trap).
        context.pythonExec = sys.executable
    application_id = str(context.applicationId)
    listen_to_batches(spark, application_id)
    return Driver(context.defaultParallelism, application_id)


def _parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once, as Spark divides a range that is told nothing else."""
    return max(1, spark.range(1 << 16).selectExpr("spark_partition_id()").distinct().count())
