"""Copies a topic to a table of Delta Lake: delta.py SERVERS TOPIC FOLDER.  Needs PySpark 4.2, and Maven Central.

Delta's package is made for one version of Spark: 4.4.0 for Spark 4.2.  There is none for Spark 4.3 yet, so install
tidegate in an environment of its own: ``pip install '.[spark]' pyspark==4.2.1``.
"""

import sys

from pyspark.sql import SparkSession

import tidegate

if len(sys.argv) != 4:
    sys.exit(__doc__)
servers, topic, folder = sys.argv[1:]
spark = (
    SparkSession.builder.config(map=tidegate.session_conf())
    .config("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:4.4.0")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
orders = rows.option("startingOffsets", "earliest").option("maxDrift", "1 hour").load()
query = (
    orders.selectExpr("timestamp", "CAST(value AS STRING) AS value")
    .writeStream.format("delta")
    .option("checkpointLocation", f"{folder}/_checkpoint")
    .trigger(availableNow=True)
    .start(folder)
)
query.awaitTermination()
print(f"{spark.read.format('delta').load(folder).count()} orders in {folder}")
spark.stop()
