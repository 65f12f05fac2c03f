"""Writes a topic to Parquet, aligned in event time: backfill.py BOOTSTRAP_SERVERS TOPIC OUT."""

import sys

from pyspark.sql import SparkSession

import tidegate

if len(sys.argv) != 4:
    sys.exit(__doc__)
servers, topic, out = sys.argv[1:]
spark = SparkSession.builder.config(map=tidegate.session_conf()).getOrCreate()
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
history = rows.option("startingOffsets", "earliest").option("maxDrift", "1 hour").load()
parquet = history.writeStream.format("parquet").option("checkpointLocation", f"{out}/_checkpoint")
parquet.trigger(availableNow=True).start(out).awaitTermination()
