"""A query that tests kill: it writes windows over a topic to Parquet, and can be started again over its checkpoint."""

from datetime import timedelta

import tidegate
from tests.sources.killable import start_to_parquet
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.windows import EventTimeSessionWindows

GAP, DISORDER, LATENESS = timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=10)
BUCKETS = 8


def start(spark, servers, topic, out):
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
    rows = counted.selectExpr("*", "late_row.offset AS late_offset").drop("late_row")
    return start_to_parquet(rows, out, availableNow=True)
