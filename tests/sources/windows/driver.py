"""A driver to be killed: counts a topic's rows by windows into Parquet, and can be started again over its checkpoint.

python -m tests.sources.windows.driver SERVERS TOPIC OUT PARTITIONS [MASTER]
"""

import os
import sys
from datetime import timedelta

from pyspark.sql import SparkSession

import tidegate
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.windows import TumblingEventTimeWindows

SIZE = timedelta(minutes=10)


def main(servers, topic, out, partitions, master="local[2]"):
    os.environ["PYSPARK_PYTHON"] = sys.executable  # a cluster's workers are not told otherwise
    spark = (
        SparkSession.builder.master(master)
        .config(map=tidegate.session_conf())
        .config("spark.sql.shuffle.partitions", partitions)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        ending_offsets="latest",
        max_offsets_per_trigger=2_000,
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1)),
    )
    windows = tidegate.windowed(source.read_stream(spark), "partition", "timestamp")
    counted = windows.window(TumblingEventTimeWindows.of(SIZE)).side_output_late("late").aggregate(rows="count(*)")
    query = (
        counted.drop("late_row")
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
