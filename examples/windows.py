"""Counts rows by half an hour and partition, and keeps rows apart that come too late: windows.py SERVERS TOPIC."""

import sys
from datetime import timedelta

from pyspark.sql import SparkSession

import tidegate
from tidegate.windows import TumblingEventTimeWindows

if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:]
spark = SparkSession.builder.config(map=tidegate.session_conf()).config("spark.sql.shuffle.partitions", 2).getOrCreate()
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
orders = (
    rows.option("startingOffsets", "earliest").option("endingOffsets", "latest").option("maxDrift", "1 hour").load()
)
windows = tidegate.windowed(orders, "partition", "timestamp").window(TumblingEventTimeWindows.of(timedelta(minutes=30)))
counts = windows.allowed_lateness(timedelta(hours=1)).side_output_late("late").aggregate(rows="count(*)")
counts.writeStream.format("memory").queryName("counts").trigger(availableNow=True).start().awaitTermination()
spark.sql("select partition, window_start, rows, output from counts order by partition, window_start, rows").show(50)
