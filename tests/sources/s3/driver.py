"""A driver to be killed: copies objects to Parquet, and can be started again over its checkpoint.

python -m tests.sources.s3.driver PATH STATE OUT [--files FILES] [--master MASTER] [--queue URL]

Finds the endpoint and the keys as boto3 does.  With FILES it reads so many objects a batch, for ever;
without, all there are, and ends.
"""

import argparse
import os
import sys
from datetime import timedelta

from pyspark.sql import SparkSession

from tidegate import S3Source, WatermarkStrategy


def main(path, state, out, files, master, queue):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .config("spark.deploy.maxExecutorRetries", "-1")  # a cluster would give up after ten that die
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    source = S3Source(
        path=path,
        event_time="column:at",
        state_location=state,
        max_files_per_trigger=files,
        queue_url=queue,
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=3)),
        discovery_interval=timedelta(milliseconds=300),
    )
    query = (
        source.read_stream(spark)
        .writeStream.format("parquet")
        .option("path", f"{out}/data")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(**({"availableNow": True} if files is None else {"processingTime": "0 seconds"}))
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for place in ("path", "state", "out"):
        parser.add_argument(place)
    parser.add_argument("--files", type=int)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--queue")
    main(**vars(parser.parse_args()))
