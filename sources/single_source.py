"""Makes one configured source known to a Spark session, and gets the session ready for it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidegate.sources.batch_listener import listen_to_batches
from tidegate.sources.bridge import Driver, data_source_class
from tidegate.sources.session import use_unix_sockets

if TYPE_CHECKING:  # which imports this to register itself
    from tidegate.sources.contract import Source

__all__ = ["prepare", "register_source"]


def register_source(spark: SparkSession, source: Source) -> str:
    """Register one configured source under a name of its own, and return the name.

    The registered class carries the source by value; nothing of it stands in an option.  Options by which the
    source tells its watermark may still be set.
    """
    driver = prepare(spark)
    name = f"tidegate_{source.connector}_{uuid.uuid4().hex[:12]}"
    spark.dataSource.register(data_source_class(name, partial(_telling, source), driver))
    return name


def _telling(source: Source, options: Mapping[str, str]) -> Source:
    return source.telling_watermarks() if options else source


def prepare(spark: SparkSession) -> Driver:
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
