"""Queries that tests kill: each writes to Parquet, and can be started again over its checkpoint."""

from datetime import timedelta

import tidegate
from tests.sources.killable import start_to_parquet
from tests.sources.kills import HEADER, SIZE
from tidegate import KafkaSource, S3Source, WatermarkStrategy
from tidegate.windows import TumblingEventTimeWindows


def start(spark, servers, topic, archive, out, *, permissive=False):
    """Copy a typed topic and its archive.  permissive: bad records, too, with null where they cannot be read."""
    aside = {"bad_records_path": f"{out}/bad"}
    policy = {"mode": "PERMISSIVE", "bad_event_time": "ignore"} if permissive else aside
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        archive=archive,
        max_offsets_per_trigger=2_000,
        value_format="json",
        value_schema="n BIGINT",
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1)),
        **policy,
    )
    return start_to_parquet(source.read_stream(spark), out, availableNow=True)


def start_marked(spark, servers, topic, out):
    """Close windows by marks in a header."""
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
    return start_to_parquet(windows.aggregate(rows="count(*)"), out, availableNow=True)


def start_objects(spark, path, state, out, files, *, ends):
    """Copy objects; ends: those that are present, otherwise for ever.

    It finds the endpoint and the keys as boto3 does.
    """
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
