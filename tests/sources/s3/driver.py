"""A query that tests kill: it copies objects to Parquet, and can be started again over its checkpoint.

It finds the endpoint and the keys as boto3 does.
"""

from datetime import timedelta

from tests.sources.killable import start_to_parquet
from tidegate import S3Source, WatermarkStrategy


def start(spark, path, state, out, files, *, ends):
    """Start the query; ends: it reads the present objects and ends, otherwise it goes on for ever."""
    source = S3Source(
        path=path,
        event_time="column:at",
        state_location=state,
        max_files_per_trigger=files,
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=3)),
        discovery_interval=timedelta(milliseconds=300),
    )
    trigger = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
    return start_to_parquet(source.read_stream(spark), out, **trigger)
