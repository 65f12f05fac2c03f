"""Cuts each partition of a topic into sessions, 30 minutes apart: sessions.py BOOTSTRAP_SERVERS TOPIC.

Event-time timers fire on the source's own watermark, which is the minimum over its partitions.  At
the end of the topic it is plus infinity, so the last sessions are also closed.
"""

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import tidegate

GAP_MS = 30 * 60 * 1000
OPEN, SESSION = "begin long, end long, records long", "partition int, begin long, end long, records long"


class Sessions(StatefulProcessor):
    """Keeps the open session of a partition, and a timer for its end."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.session = handle, handle.getValueState("session", OPEN)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        begin, end, records = self.session.get() or (0, 0, 0)
        for time in sorted(round(row.timestamp.timestamp() * 1000) for row in rows):
            # Spark hands over a batch's rows before it fires the timers that are due.
            if records and time > end + GAP_MS:
                yield Row(partition=key[0], begin=begin, end=end, records=records)
                records = 0
            begin, end, records = (begin, max(end, time), records + 1) if records else (time, time, 1)
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.session.update((begin, end, records))
        self.handle.registerTimer(end + GAP_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        begin, end, records = self.session.get() or (0, 0, 0)
        self.session.clear()
        yield Row(partition=key[0], begin=begin, end=end, records=records)


if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:]
rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
spark = (
    SparkSession.builder.config(map=tidegate.session_conf())
    .config("spark.sql.shuffle.partitions", 4)
    .config("spark.sql.streaming.stateStore.providerClass", rocksdb)
    .getOrCreate()
)
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
history = rows.option("startingOffsets", "earliest").option("endingOffsets", "latest").option("maxDrift", "1 hour")
timed = history.option("maxOutOfOrderness", "1 minute").option("sourceWatermark", "rows").load()
sessions = tidegate.with_source_watermark(timed).groupBy("partition")
counts = sessions.transformWithState(Sessions(), SESSION, outputMode="append", timeMode="EventTime")
counts.writeStream.format("memory").queryName("sessions").trigger(availableNow=True).start().awaitTermination()
shown = ("partition", "timestamp_millis(begin) AS begin", "timestamp_millis(end) AS end", "records")
spark.table("sessions").orderBy("begin", "partition").selectExpr(*shown).show()
