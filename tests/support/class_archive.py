"""Spark's classes in the form that Java has in memory: to load and verify them is half of what a Spark's start costs.

Tests start some hundred Sparks, many of them to kill them.  Java takes no archive that was made for other jars
or by another Java.

python -m tests.support.class_archive makes the archive, which the first run of the tests would make.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tests.conformance.memory.reference import MemoryHarness
from tidegate.conformance import Row
from tidegate.servers.java import find_java, spark_jars

FOLDER = Path(__file__).parents[2] / "build" / "classes"
OPTIONS = "-Xlog:disable"  # Kafka's Java has other jars, and would warn that the archive is not for it
LEARN = "from tests.support.class_archive import use_spark; use_spark()"
# For the seconds that each of many Javas lives, the second compiler costs more than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def options_with_archive():
    """Return options for every Java, which let Spark's use the archive; the first call makes it."""
    archive = FOLDER / f"spark-{_fingerprint()}.jsa"
    if not archive.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        for old in FOLDER.glob("*.jsa"):
            old.unlink()
        made = archive.with_suffix(f".{os.getpid()}")  # another run of the tests may be making it, too
        learnt = subprocess.run(
            [sys.executable, "-c", LEARN],
            env={**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        # Java ends well also where it could not write the archive, as on a full disk.
        assert (learnt.returncode, made.exists()) == (0, True), learnt.stdout[-3000:]
        made.rename(archive)
    return f"{os.environ['JDK_JAVA_OPTIONS']} -XX:SharedArchiveFile={archive} {OPTIONS}"


def _fingerprint():
    """Return what differs for every Java and all jars."""
    java = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    jars = [f"{jar} {jar.stat().st_mtime_ns}" for jar in spark_jars("*.jar")]
    return hashlib.sha256(java + "\n".join(jars).encode()).hexdigest()[:16]


def use_spark():
    """Use what tests use of Spark, as the run that Java learns from."""
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
    options_with_archive()
