"""Counts orders by windows of 5 minutes into Parquet, for spark-submit: count_orders.py SERVERS TOPIC FOLDER.

Run it every hour: each run continues where the last one ended.

FOLDER: where driver and executors read and write the same files, such as s3a://bucket/orders or /orders of HDFS.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import window

import tidegate

if len(sys.argv) != 4:
    sys.exit(__doc__)
servers, topic, folder = sys.argv[1:]
spark = SparkSession.builder.appName("count orders").config(map=tidegate.session_conf()).getOrCreate()
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
orders = rows.option("startingOffsets", "earliest").option("maxDrift", "1 hour").load()
# The delay is maxDrift, by which a partition may trail at the end of a run, and a minute for rows out of order.
counts = orders.withWatermark("timestamp", "61 minutes").groupBy(window("timestamp", "5 minutes")).count()
query = (
    counts.select("window.start", "count")
    .writeStream.queryName("orders by window")
    .format("parquet")
    .option("path", f"{folder}/counts")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
