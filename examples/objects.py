"""Counts the rows of Parquet objects by an hour of event time: objects.py s3://BUCKET/PREFIX STATE_FOLDER."""

import sys
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql.functions import window

import tidegate

if len(sys.argv) != 3:
    sys.exit(__doc__)
path, state = sys.argv[1:]
spark = SparkSession.builder.config(map=tidegate.session_conf()).config("spark.sql.shuffle.partitions", 4).getOrCreate()
tidegate.register(spark)
rows = spark.readStream.format("tidegate_s3").option("path", path).option("stateLocation", state)
history = rows.option("eventTime", "column:at").option("maxDrift", "1 hour").load()
counts = history.withWatermark("at", "1 hour 1 minute").groupBy(window("at", "1 hour")).count()  # an object's span
with TemporaryDirectory() as checkpoint:
    memory = counts.writeStream.format("memory").queryName("counts").option("checkpointLocation", checkpoint)
    memory.trigger(availableNow=True).start().awaitTermination()
    spark.table("counts").selectExpr("count(*) AS windows", "sum(count) AS rows").show()
    spark.read.format("statestore").load(checkpoint).selectExpr("sum(value.count) AS rows_in_open_windows").show()
