"""Counts what a topic holds now, by partition, in a batch query: batch.py BOOTSTRAP_SERVERS TOPIC."""

import sys

from pyspark.sql import SparkSession

from tidegate import KafkaSource

if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
rows = KafkaSource(bootstrap_servers=servers, subscribe=[topic]).read(spark)
rows.groupBy("partition").count().orderBy("partition").show()
