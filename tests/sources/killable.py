"""The parts that drivers which tests kill have in common."""

import os
import sys

from pyspark.sql import SparkSession


def driver_session(master, settings=None):
    """Return a session without pages, on this host; settings: Spark's, by name."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # a cluster's workers are not told otherwise
    return (
        SparkSession.builder.master(master)
        .config(map=settings or {})
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def run_to_parquet(rows, out, **trigger):
    """Write rows to ``out/data``, with the checkpoint beside it, until the query ends; return the query."""
    query = (
        rows.writeStream.format("parquet")
        .option("path", f"{out}/data")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination()
    return query
