"""Spark's classes in the form that Java has in memory: to load and verify them is half of what a Spark's start costs.

Tests start some hundred Sparks, many of them to kill them.  Java takes no archive that was made for other jars
or by another Java.

python -m tests.support.class_archive: uses what tests use of Spark, as the run that Java learns from.
"""

import hashlib
import os
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tidegate.conformance import Row
from tidegate.conformance.memory.reference import MemoryHarness
from tidegate.servers.java import find_java, spark_jars

OPTIONS = "-Xlog:disable"  # Kafka's Java has other jars, and would warn that the archive is not for it


def options_with_archive(folder, options):
    """Return options for every Java, which let Spark's use the archive in the folder; the first call makes it."""
    archive = folder / f"spark-{_fingerprint()}.jsa"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.jsa"):
            old.unlink()
        made = archive.with_suffix(f".{os.getpid()}")  # another run of the tests may be making it, too
        learnt = subprocess.run(
            [sys.executable, "-m", __name__],
            env={**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made} {OPTIONS}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert learnt.returncode == 0, learnt.stderr[-3000:]
        made.rename(archive)
    return f"{options} -XX:SharedArchiveFile={archive} {OPTIONS}"


def _fingerprint():
    """Return what differs for every Java and all jars."""
    java = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    jars = [f"{jar} {jar.stat().st_mtime_ns}" for jar in spark_jars("*.jar")]
    return hashlib.sha256(java + "\n".join(jars).encode()).hexdigest()[:16]


def main():
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.port", "0")
        .getOrCreate()
    )
    harness = MemoryHarness()
    harness.create_split().append([Row(0, number, number * 1000, "any") for number in range(10)])
    with tempfile.TemporaryDirectory() as out:
        rows = harness.source({}).read_stream(spark).withWatermark("at", "1 second")
        writer = rows.groupBy(F.window("at", "2 seconds")).count().writeStream.format("parquet")
        writer = writer.option("path", f"{out}/windows").option("checkpointLocation", f"{out}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.read.parquet(f"{out}/windows").groupBy().count().collect()
    spark.stop()


if __name__ == "__main__":
    main()
