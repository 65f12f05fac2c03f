"""Reads Delta tables that were filled by Spark's own Kafka source; run by hand, because Spark fetches the jars.

    python -m tests.sources.kafka.spark_tables [--delta io.delta:delta-spark_4.2_2.13:4.4.0]

Without --delta, Spark writes Parquet, which delta-rs appends to a table.  With it, the table is Spark's own, and Spark
deletes from it, updates, optimizes and vacuums it, with deletion vectors, and adds a column.  That needs a PySpark for
which Delta has jars.  After each step, what tidegate reads of table and topic must be what Spark reads of the table,
and behind it of the topic.
"""

import argparse
import json
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import tidegate
from tests.support.streams import HOUR, NOON, delete_before, even_times, new_topic
from tests.support.tables import SCHEMA, Delta
from tidegate.jobs.demo.run import built_in_jars
from tidegate.servers import KafkaServer

COUNTS, ARCHIVED, KEPT_FROM = (4000, 1000, 2500), 0.8, 0.6
WRITES = 6
STEPS = (
    "DELETE FROM {0} WHERE partition = 0 AND offset % 17 = 0",
    "ALTER TABLE {0} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)",
    "DELETE FROM {0} WHERE offset % 13 = 5",
    "UPDATE {0} SET value = CAST('new' AS BINARY) WHERE partition = 2 AND offset BETWEEN 100 AND 300",
    "DELETE FROM {0} WHERE partition = 1 AND offset > 700",
    "OPTIMIZE {0} ZORDER BY (`timestamp`)",
    "ALTER TABLE {0} ADD COLUMNS (ingested TIMESTAMP)",
    "DELETE FROM {0} WHERE partition = 0 AND offset < 10",
    "ALTER TABLE {0} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1')",
    "MERGE INTO {0} t USING (SELECT 400L AS o) s ON t.offset = s.o WHEN MATCHED THEN UPDATE SET value = NULL",
    "OPTIMIZE {0}",
    "VACUUM {0} RETAIN 0 HOURS",
)


def session(delta):
    builder = SparkSession.builder.master("local[2]").config("spark.jars", built_in_jars())
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    if delta:
        settings["spark.jars.packages"] = delta
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    spark = builder.config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    tidegate.register(spark)
    return spark


def filled_topic(kafka):
    """Return a topic whose first partition has some records with keys and headers, and without a value."""
    topic = new_topic(kafka, *(even_times(NOON, NOON + HOUR, count) for count in (COUNTS[0] - 200, *COUNTS[1:])))
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(200):
        headers = [("a", b"1"), ("b", b"")] if number % 3 else []
        producer.send(topic, b"v%d" % number if number % 5 else None, b"k", headers, 0, NOON + HOUR + number)
    producer.close()
    return topic


def by_kafka(spark, kafka, topic, begins, ends):
    """Return the records of a topic between offsets of its partitions, as Spark's own source reads them."""
    places = (("startingOffsets", begins), ("endingOffsets", ends))
    bounds = {name: json.dumps({topic: {str(p): int(at) for p, at in enumerate(of)}}) for name, of in places}
    return spark.read.format("kafka").options(**options(kafka, topic), **bounds).load()


def options(kafka, topic):
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}


def comparable(rows):
    return rows.select(*SCHEMA.names[:-1], f.to_json("headers").alias("headers"))


def rows_of(spark, table, *, by_spark):
    """Return the rows of a table, as Spark reads them or, without its jars, delta-rs."""
    if by_spark:
        return spark.read.format("delta").load(table.path)
    return spark.createDataFrame(table.read())


def check(spark, kafka, topic, table, step, *, by_spark):
    """Raise AssertionError unless tidegate and Spark read the same."""
    both = options(kafka, topic) | {"archive": table.location}
    ours = comparable(spark.read.format("tidegate_kafka").options(**both).load()).cache()
    held = rows_of(spark, table, by_spark=by_spark)
    ends = dict(held.groupBy("partition").agg(f.max("offset") + 1).collect())
    behind = by_kafka(spark, kafka, topic, [ends[partition] for partition in range(len(COUNTS))], COUNTS)
    truth = comparable(held).unionAll(comparable(behind)).cache()
    differ = ours.exceptAll(truth).count(), truth.exceptAll(ours).count()
    print(f"{truth.count()} rows, {differ} differ: {step}", flush=True)
    assert differ == (0, 0)


def append(rows, table, parts):
    """Let delta-rs append what Spark has written as Parquet."""
    rows.write.parquet(str(parts))
    for part in sorted(parts.glob("*.parquet")):
        table.append(pq.read_table(part, coerce_int96_timestamp_unit="us").cast(SCHEMA))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delta")
    delta = parser.parse_args().delta
    spark = session(delta)
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        topic = filled_topic(kafka)
        table = Delta(f"{folder}/table")
        cuts = np.linspace(0, ARCHIVED, WRITES + 1)
        for number, places in enumerate(pairwise(cuts)):
            rows = by_kafka(spark, kafka, topic, *([int(count * at) for count in COUNTS] for at in places))
            if delta:
                rows.write.format("delta").mode("append").save(table.path)
            else:
                append(rows, table, Path(folder, str(number)))
        for partition, count in enumerate(COUNTS):
            delete_before(kafka, topic, int(count * KEPT_FROM), partition)
        check(spark, kafka, topic, table, "append", by_spark=delta)
        for step in STEPS if delta else ():
            spark.sql(step.format(f"delta.`{table.path}`"))
            check(spark, kafka, topic, table, step, by_spark=delta)
    spark.stop()


if __name__ == "__main__":
    main()
