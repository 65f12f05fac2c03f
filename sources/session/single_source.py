"""Registers one configured source with a Spark session, and prepares the session."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidegate.sources.bridge import Driver, data_source_class
from tidegate.sources.environments import require_planner
from tidegate.sources.progress.batches import listen_to_batches
from tidegate.sources.session.settings import set_up_workers

if TYPE_CHECKING:  # it imports this module to register itself
    from tidegate.sources.contract import SourceContract


def register_source(spark: SparkSession, source: SourceContract) -> str:
    """Register one configured source under a unique name, and return the name.

    The registered class holds the source by value, not in options.
    """
    driver = prepare(spark)
    name = f"tidegate_{source.connector}_{uuid.uuid4().hex[:12]}"
    spark.dataSource.register(data_source_class(name, partial(_itself, source), driver))
    return name


def _itself(source: SourceContract, options: Mapping[str, str]) -> SourceContract:  # noqa: ARG001 - other sources are built from them
    return source


def prepare(spark: SparkSession) -> Driver:
    """Return the facts of the session that planners need.

    Raises InstallationError if a planner could not run.
    """
    context = getattr(spark, "sparkContext", None)
    is_local = context is not None and str(context.master).startswith("local")
    set_up_workers(spark, is_local=is_local)
    if context is None:
        # With Spark Connect the driver is another process, where our listener cannot leave notes for planners.
        return Driver(_parallelism(spark), str(spark.conf.get("spark.app.id")), *_address(spark))
    if is_local:
        # Python workers would take the python3 of the PATH, which may be another one (trap).
        context.pythonExec = sys.executable
    else:
        require_planner(context.pythonExec)
    application_id = str(context.applicationId)
    listen_to_batches(spark, application_id)
    return Driver(context.defaultParallelism, application_id, *(() if is_local else _address(spark)))


def _address(spark: SparkSession) -> tuple[str, str | None]:
    """Return by which name executors reach the driver's machine, and where to listen."""
    return str(spark.conf.get("spark.driver.host", "127.0.0.1")), spark.conf.get("spark.driver.bindAddress", None)


def _parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once: the partitions of a range by Spark's defaults."""
    return max(1, spark.range(1 << 16).selectExpr("spark_partition_id()").distinct().count())
