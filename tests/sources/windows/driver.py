"""A driver to be killed: windows over a topic into Parquet, that can be started again over its checkpoint.

python -m tests.sources.windows.driver SERVERS TOPIC OUT PARTITIONS [MASTER]
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.windows import EventTimeSessionWindows

GAP, DISORDER, LATENESS = timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=10)
BUCKETS = 8


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
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER)
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        ending_offsets="latest",
        watermarks=strategy.with_watermark_alignment(max_drift=timedelta(hours=1)),
    )
    windows = tidegate.windowed(source.read_stream(spark), "partition", "timestamp").buckets(BUCKETS)
    sessions = windows.window(EventTimeSessionWindows.with_gap(GAP)).allowed_lateness(LATENESS)
    counted = sessions.side_output_late("late").aggregate(rows="count(*)", total="sum(offset)")
    query = (
        counted.selectExpr("*", "late_row.offset AS late_offset")
        .drop("late_row")
        .writeStream.format("parquet")
        .option("path", f"{out}/data")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    state = [progress.stateOperators[0].numRowsTotal for progress in query.recentProgress]
    Path(out, "state.json").write_text(json.dumps(state))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
