"""A back-fill with tidegate, aligned by event time, that goes on in Spark's Real-time Mode.

It needs a quiet machine and a minute, so it is run by hand: ``python -m tests.jobs.migrate.real_time``.
"""

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import tidegate
from tests.support.streams import NOON
from tidegate.cli import app
from tidegate.jobs.demo.run import built_in_jars
from tidegate.servers import KafkaServer, write_history

PARTITIONS, MINUTES, EACH = 2, 9, 50  # rows of a window in each partition
SHUFFLED = 2
SLOTS = PARTITIONS + SHUFFLED + 1  # the tasks of all stages run at once; and this program looks at the results
MINUTE = 60_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONF = {
    "spark.jars": built_in_jars(),
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": SHUFFLED,
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": 2,
}


def counts(rows):
    windows = rows.withWatermark("timestamp", "1 minute").groupBy(f.window("timestamp", "1 minute"))
    start = f.unix_millis("window.start").alias("start")
    return windows.count().select(f.to_json(f.struct(start, "count")).alias("value"))


def written(stream, server, topic, checkpoint, **trigger):
    writer = stream.writeStream.format("kafka").outputMode("update").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", server).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**trigger).start()


def updates(spark, server, topic):
    """Return the counts of windows that the sink has, in the order in which they came."""
    options = {"kafka.bootstrap.servers": server, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.read.format("kafka").options(**options).load().orderBy("offset").collect()
    return [(value["start"] - NOON, value["count"]) for value in (json.loads(bytes(row["value"])) for row in rows)]


def append(server, topic, begin, end):
    """Write the rows of some minutes: the last window has half of its rows if ``end`` is a half."""
    for partition in range(PARTITIONS):
        times = np.arange(begin * EACH, end * EACH) * (MINUTE // EACH) + NOON
        write_history(server, topic, partition, times.astype(np.int64))


def run(folder):
    with KafkaServer() as kafka:
        server = kafka.bootstrap_servers
        for topic, partitions in (("rows", PARTITIONS), ("counts", 1)):
            kafka.create_topic(topic, partitions)
        append(server, "rows", 0, MINUTES / 2)
        builder = SparkSession.builder.master(f"local[{SLOTS}]").config(map=tidegate.session_conf() | CONF)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        tidegate.register(spark)
        options = {"kafka.bootstrap.servers": server, "subscribe": "rows", "startingOffsets": "earliest"}

        aligned = spark.readStream.format("tidegate_kafka").options(**options, maxDrift="2 minutes").load()
        backfill = written(counts(aligned), server, "counts", folder / "aligned", availableNow=True)
        backfill.awaitTermination()
        before = dict(updates(spark, server, "counts"))
        app(["migrate", str(folder / "aligned"), "--to", str(folder / "back"), "--back"], standalone_mode=False)

        built_in = spark.readStream.format("kafka").options(**options).load()
        query = written(counts(built_in), server, "counts", folder / "back", realTime="5 seconds")
        append(server, "rows", MINUTES / 2, MINUTES)
        deadline = time.monotonic() + 120
        while sum(dict(updates(spark, server, "counts")).values()) < PARTITIONS * MINUTES * EACH:
            if query.exception() or time.monotonic() > deadline:
                raise AssertionError(query.exception() or updates(spark, server, "counts"))
        dropped = Counter(
            operator.numRowsDroppedByWatermark for entry in query.recentProgress for operator in entry.stateOperators
        )
        query.stop()
        after = dict(updates(spark, server, "counts"))
        open_window = MINUTES // 2 * MINUTE
        assert before[open_window] == PARTITIONS * EACH // 2, before
        assert after == {minute * MINUTE: PARTITIONS * EACH for minute in range(MINUTES)}, after
        assert set(dropped) <= {0}, dropped
        print(
            f"PySpark {spark.version}: {sum(after.values())} rows, 0 lost, 0 doubled; "
            f"the open window went on from {before[open_window]} to {after[open_window]}"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        run(Path(name))
