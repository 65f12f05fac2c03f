"""A query that tests kill: it closes windows by marks in a header, and can be started again over its checkpoint."""

import tidegate
from tests.sources.kafka.marked_topic import HEADER, SIZE
from tests.sources.killable import start_to_parquet
from tidegate import KafkaSource
from tidegate.windows import TumblingEventTimeWindows


def start(spark, servers, topic, out):
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
