"""Java's classes in the form that it has in memory: to load and verify them is half of what a start costs.

Tests start some hundred Sparks and some thirty servers, many of them to kill them.  Java takes no archive that was made
for other jars or by another Java.

python -m tests.support.class_archive makes the archives, which the first run of the tests would make.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import numpy as np
from kafka import KafkaConsumer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tests.conformance.memory.reference import MemoryHarness
from tidegate.conformance import Row
from tidegate.errors import ServerError
from tidegate.servers import KafkaServer, S3Server, kafka, s3, write_history
from tidegate.servers.java import find_jars, find_java, spark_jars

FOLDER = Path(__file__).parents[2] / "build" / "classes"
OPTIONS = (
    "-Xlog:disable"  # a Java with other jars, such as that of the registry, would warn that the archive is not for it
)
LEARN = "from tests.support.class_archive import use_spark; use_spark()"
# For the seconds that each of many Javas lives, the second compiler costs more than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def options_with_archive():
    """Return options for every Java, which let Spark's use the archive; the first call makes all archives.

    A server gets its archive only once its jars are here, which its first start fetches.
    """
    java = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    archive = _archive("spark", java, spark_jars("*.jar"), _let_spark_learn)
    for name, (server, jars, use) in SERVERS.items():
        with suppress(ServerError):
            _archive(name, java, find_jars(server.COORDINATE, jars).iterdir(), partial(_let_server_learn, server, use))
    return f"{os.environ['JDK_JAVA_OPTIONS']} -XX:SharedArchiveFile={archive} {OPTIONS}"


def let_servers_use_archives():
    """Let the servers that this process starts use the archives that were made for them."""
    for name, (server, *_) in SERVERS.items():
        server.JVM_OPTIONS += [f"-XX:SharedArchiveFile={archive}" for archive in FOLDER.glob(f"{name}-*.jsa")]


def _archive(name, java, jars, let_learn):
    """Return the archive for a Java and some jars, and make it if it is missing."""
    known = [f"{jar} {jar.stat().st_mtime_ns}" for jar in sorted(jars)]
    fingerprint = hashlib.sha256(java + "\n".join(known).encode()).hexdigest()[:16]
    archive = FOLDER / f"{name}-{fingerprint}.jsa"
    if not archive.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        for old in FOLDER.glob(f"{name}-*.jsa"):
            old.unlink()
        made = archive.with_suffix(f".{os.getpid()}")  # another run of the tests may be making it, too
        said = let_learn(made)
        # Java ends well also where it could not write the archive, as on a full disk.
        assert made.exists(), said[-3000:]
        made.rename(archive)
    return archive


def _let_spark_learn(made):
    learnt = subprocess.run(
        [sys.executable, "-c", LEARN],
        env={**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert learnt.returncode == 0, learnt.stdout[-3000:]
    return learnt.stdout


def _let_server_learn(server, use, made):
    server.JVM_OPTIONS.append(f"-XX:ArchiveClassesAtExit={made}")
    try:
        with tempfile.TemporaryDirectory() as folder:  # with a folder of its own, a server shuts down and is not killed
            use(folder)
    finally:
        server.JVM_OPTIONS.pop()
    return "Java has written no archive"


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


def _use_kafka(folder):
    with KafkaServer(folder=folder) as server:
        server.create_topic("any", 2)
        write_history(server.bootstrap_servers, "any", 0, np.arange(1_000, 1_010))
        with closing(
            KafkaConsumer(
                "any", bootstrap_servers=server.bootstrap_servers, group_id="any", auto_offset_reset="earliest"
            )
        ) as consumer:
            next(consumer)
            consumer.commit()


def _use_s3(folder):
    with S3Server(folder=folder) as server, closing(server.client()) as client:
        server.create_bucket("any")
        client.put_object(Bucket="any", Key="any/object", Body=b"any")
        client.list_objects_v2(Bucket="any", Prefix="any/")
        client.get_object(Bucket="any", Key="any/object")["Body"].read()
        client.delete_object(Bucket="any", Key="any/object")


SERVERS = {"kafka": (kafka, "KAFKA_LIBS", _use_kafka), "s3": (s3, "S3PROXY_LIBS", _use_s3)}
"""The module of each server, the variable that names a folder of its jars, and what Java learns from."""


if __name__ == "__main__":
    options_with_archive()
