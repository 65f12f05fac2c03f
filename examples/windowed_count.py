"""Counts a topic's rows by 5 minutes of event time: windowed_count.py BOOTSTRAP_SERVERS TOPIC."""

import sys
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql.functions import window

import tidegate

if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:]
spark = SparkSession.builder.config(map=tidegate.session_conf()).config("spark.sql.shuffle.partitions", 4).getOrCreate()
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
history = rows.option("startingOffsets", "earliest").option("maxDrift", "1 hour").load()
counts = history.withWatermark("timestamp", "1 minute").groupBy(window("timestamp", "5 minutes")).count()
with TemporaryDirectory() as checkpoint:
    memory = counts.writeStream.format("memory").queryName("counts").option("checkpointLocation", checkpoint)
    memory.trigger(availableNow=True).start().awaitTermination()
    spark.table("counts").selectExpr("count(*) AS windows", "sum(count) AS rows").show()
    spark.read.format("statestore").load(checkpoint).selectExpr("sum(value.count) AS rows_in_open_windows").show()
