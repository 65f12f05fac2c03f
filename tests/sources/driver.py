"""A query that tests kill: it copies a typed topic and its archive to Parquet, and can be started again."""

from datetime import timedelta

from tests.sources.killable import start_to_parquet
from tidegate import KafkaSource, WatermarkStrategy


def start(spark, servers, topic, archive, out):
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        archive=archive,
        max_offsets_per_trigger=2_000,
        value_format="json",
        value_schema="n BIGINT",
        bad_records_path=f"{out}/bad",
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1)),
    )
    return start_to_parquet(source.read_stream(spark), out, availableNow=True)
