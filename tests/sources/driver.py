"""A driver to be killed: copies a topic to Parquet, and can be started again over its checkpoint.

python -m tests.sources.driver SERVERS TOPIC OUT [MASTER [LOCATION]]

LOCATION: of an alignment group of two members; without it there is no group.
"""

import os
import sys
from datetime import timedelta

from pyspark.sql import SparkSession

from tidegate import KafkaSource, WatermarkStrategy


def main(servers, topic, out, master="local[2]", location=None):
    os.environ["PYSPARK_PYTHON"] = sys.executable  # a cluster's workers are not told otherwise
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    group = {"group": "drivers", "location": location, "members": 2} if location else {}
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        max_offsets_per_trigger=2_000,
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1), **group),
    )
    query = (
        source.read_stream(spark)
        .writeStream.format("parquet")
        .option("path", f"{out}/data")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
