"""A driver that tests kill: it copies objects to Parquet, and can be started again over its checkpoint.

python -m tests.sources.s3.driver PATH STATE OUT [--files FILES] [--master MASTER] [--queue URL]

It finds the endpoint and the keys as boto3 does.  With FILES it reads this number of objects per batch, for
ever.  Without FILES it reads all present objects, and ends.
"""

import argparse
from datetime import timedelta

from tests.sources.killable import await_end, driver_session, start_to_parquet
from tidegate import S3Source, WatermarkStrategy


def start(spark, path, state, out, files=None, queue=None, *, ends=True):
    """Start the query; ends: it reads the present objects and ends, otherwise it goes on for ever."""
    source = S3Source(
        path=path,
        event_time="column:at",
        state_location=state,
        max_files_per_trigger=files,
        queue_url=queue,
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=3)),
        discovery_interval=timedelta(milliseconds=300),
    )
    trigger = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
    return start_to_parquet(source.read_stream(spark), out, **trigger)


def main(path, state, out, files, master, queue):
    # A cluster would give up after ten executors that die.
    spark = driver_session(master, {"spark.deploy.maxExecutorRetries": -1})
    await_end(start(spark, path, state, out, files, queue, ends=files is None), out)
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for place in ("path", "state", "out"):
        parser.add_argument(place)
    parser.add_argument("--files", type=int)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--queue")
    main(**vars(parser.parse_args()))
