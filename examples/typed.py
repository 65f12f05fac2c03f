"""Every typed way to configure a source: mypy checks it, and run as a program it prints the sources."""

from datetime import datetime, timedelta, timezone

from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate import KafkaSource, OptionError, WatermarkStrategy


def strategies() -> list[WatermarkStrategy]:
    """Return every kind of watermark strategy."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    return [
        bounded.with_idleness(timedelta(minutes=5)).with_watermark_alignment(max_drift=timedelta(hours=1)),
        WatermarkStrategy.for_monotonous_timestamps(),
        WatermarkStrategy.no_watermarks(),
    ]


def aligned(servers: str) -> KafkaSource:
    """Return a back-fill of one day, aligned."""
    return KafkaSource(
        bootstrap_servers=servers,
        kafka={"security.protocol": "SSL", "ssl.truststore.location": "/etc/ssl/ca.pem"},
        subscribe=["orders", "payments"],
        starting_timestamp=datetime(2026, 1, 1, tzinfo=timezone.utc),
        ending_timestamp=1_767_312_000_000,
        starting_offsets_by_timestamp_strategy="latest",
        watermarks=strategies()[0],
        max_offsets_per_trigger=1_000_000,
        source_watermark="column",
    )


def by_backlog(servers: str) -> KafkaSource:
    """Return two partitions from given offsets, shared by backlog."""
    return KafkaSource(
        bootstrap_servers=servers,
        assign={"orders": [0, 1]},
        starting_offsets={"orders": {0: 23, 1: -2}},
        ending_offsets="latest",
        alignment="none",
        min_partitions=8,
        fail_on_data_loss=False,
        include_headers=True,
        discovery_interval=timedelta(minutes=5),
        log_level="INFO",
    )


def frames(spark: SparkSession, servers: str) -> tuple[DataFrame, DataFrame]:
    """Return a streaming and a batch DataFrame."""
    tidegate.register(spark)
    try:
        return aligned(servers).read_stream(spark), by_backlog(servers).read(spark)
    except OptionError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    print(repr(aligned("localhost:9092")), repr(by_backlog("localhost:9092")), sep="\n\n")
