"""A driver to be killed: closes windows by marks in a header, and can be started again over its checkpoint.

python -m tests.sources.kafka.generators_driver SERVERS TOPIC OUT [MASTER] [NAME=VALUE ...]
"""

import os
import sys

from pyspark.sql import SparkSession

import tidegate
from tests.sources.kafka.marked_topic import HEADER, SIZE
from tidegate import KafkaSource
from tidegate.windows import TumblingEventTimeWindows


def main(servers, topic, out, master="local[2]", *settings):
    os.environ["PYSPARK_PYTHON"] = sys.executable  # a cluster's workers are not told otherwise
    spark = (
        SparkSession.builder.master(master)
        .config(map=tidegate.session_conf())
        .config(map=dict(setting.split("=", 1) for setting in settings))
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        include_headers=True,
        watermark_from=f"header:{HEADER}",
        max_offsets_per_trigger=200,
    )
    rows = source.read_stream(spark).where("value is not null")
    windows = tidegate.windowed(rows, "partition", "timestamp").window(TumblingEventTimeWindows.of(SIZE))
    query = (
        windows.aggregate(rows="count(*)")
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
