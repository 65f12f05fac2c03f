"""The two sides of every comparison in one Spark session: this source and Spark's built-in one."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

import tidegate
from tidegate.jobs.demo.run import built_in_jars
from tidegate.servers.java import find_jars

TIDEGATE = "tidegate_kafka"
BUILT_IN = "kafka"
FEWER_PROCESSES = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager"
}
"""For each file of a local checkpoint, Spark's default class runs ten processes, as on no remote file system."""

# The version of Hadoop in PySpark 4.2 and 4.3, with the dependencies in its pom.xml that reading needs.
_S3A_JARS = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)


def s3a_jars() -> str:
    """Return the jars of Hadoop's S3 file system as a class path.

    They have 690 MB, which Spark would copy if they were ``spark.jars``.
    ``SPARK_S3A_LIBS`` may point to a folder that holds them.
    """
    folders = [find_jars(coordinate, "SPARK_S3A_LIBS", transitive=False) for coordinate in _S3A_JARS]
    return ":".join(sorted({str(jar) for folder in folders for jar in folder.glob("*.jar")}))


def avro_jars() -> str:
    """Return the jar of Spark's own ``from_avro`` as ``spark.jars`` takes it.

    ``SPARK_AVRO_LIBS`` may point to a folder that holds it.
    """
    folder = find_jars("org.apache.spark:spark-avro_2.13:4.2.0", "SPARK_AVRO_LIBS", transitive=False)
    return ",".join(map(str, folder.glob("*.jar")))


def session(cores: int = 2, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a local session of tidegate's sources and Spark's, by default with its built-in Kafka source."""
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in (settings or {"spark.jars": built_in_jars()}).items():
        builder = builder.config(name, value)
    spark = (
        builder.appName("tidegate benchmark")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    tidegate.register(spark)
    return spark
