"""A source that users configure, and that a Spark session reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.sources.contract import SourceContract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(SourceContract):
    """A source of splits in event-time order.  Authors of connectors implement it (FLIP-27: Source).

    ``SourceContract`` describes the options that all sources have.
    """

    def read_stream(self, spark: SparkSession) -> DataFrame:
        """Return a streaming DataFrame of this source."""
        from tidegate.sources.session import register_source  # executors need no session

        name = register_source(spark, self)
        return spark.readStream.format(name).load()

    def read(self, spark: SparkSession) -> DataFrame:
        """Return a batch DataFrame of the present records of this source."""
        from tidegate.sources.session import register_source

        name = register_source(spark, self)
        return spark.read.format(name).load()
