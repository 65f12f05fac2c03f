"""The cost of a batch of windows by the sessions that are open, against Spark's own ``session_window``.

Each row opens a session with a gap of an hour, and sessions open and close at one rate.  A first run of a query opens
the sessions.  A second run goes on from its checkpoint, in batches of 1,000 rows; its first batches do not count.
Both ways keep state in RocksDB with changelog checkpoints.

    python -m benchmarks.event_time.open_sessions [--open 10000 100000 1000000] [--batches 12] [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from benchmarks.event_time.windows import AGGREGATES, BEGIN_MS
from benchmarks.measuring.peers import TIDEGATE, session
from benchmarks.measuring.rounds import Measured, measure, print_table
from tidegate.servers import KafkaServer, write_history
from tidegate.windows import EventTimeSessionWindows

GAP = timedelta(hours=1)
GAP_MS = GAP // timedelta(milliseconds=1)
ROWS = 1_000  # of a batch
MOST_ROWS = 500_000  # of a batch that opens sessions
NOT_COUNTED = 3
STATE_STORE = "spark.sql.streaming.stateStore."
SETTINGS = {  # of both ways; ``windowed`` would set the same in the middle of the run
    f"{STATE_STORE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE_STORE}rocksdb.changelogCheckpointing.enabled": "true",
}


def spark_s_own(rows: DataFrame) -> DataFrame:
    """Return the sessions as anyone would write them."""
    results = [f.expr(text).alias(name) for name, text in AGGREGATES.items()]
    return (
        rows.withWatermark("timestamp", "0 seconds")
        .groupBy("id", f.session_window("timestamp", "1 hour"))
        .agg(*results)
    )


def operator(rows: DataFrame) -> DataFrame:
    """Return the sessions that tidegate's operator keeps."""
    return (
        tidegate.windowed(rows, "id", "timestamp").window(EventTimeSessionWindows.with_gap(GAP)).aggregate(**AGGREGATES)
    )


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {"spark": spark_s_own, "operator": operator}


def run(rows: DataFrame, checkpoint: str) -> list[float]:
    """Run a query over all there is, and return the milliseconds of each batch with rows."""
    writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    progress = [json.loads(batch.json) for batch in running.recentProgress]
    return [batch["durationMs"]["triggerExecution"] for batch in progress if batch["numInputRows"]]


class Topics:
    """Topics of one broker, whose rows open sessions: their times pass through a gap with each ``count`` rows."""

    def __init__(self, spark: SparkSession, kafka: KafkaServer) -> None:
        self._spark, self._kafka = spark, kafka
        self._numbers = count(1)

    def create(self) -> str:
        """Return a new topic."""
        topic = f"sessions-{next(self._numbers)}"
        self._kafka.create_topic(topic, 1)
        return topic

    def append(self, topic: str, begin: int, end: int, open_sessions: int) -> None:
        """Write rows, numbered from begin to end."""
        times = BEGIN_MS + np.arange(begin, end) * GAP_MS // open_sessions
        write_history(self._kafka.bootstrap_servers, topic, 0, times.astype(np.int64), value_size=20)

    def load(self, topic: str, batch: int) -> DataFrame:
        """Return the stream of a topic, with a key of its own in each row."""
        options = {
            "kafka.bootstrap.servers": self._kafka.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(batch),
        }
        frame = self._spark.readStream.format(TIDEGATE).options(**options).load()
        return frame.withColumn("id", f.expr("concat('key-', offset)"))


def measured(way: str, topics: Topics, open_sessions: int, batches: int) -> Measured[list[float]]:
    """Open sessions, and measure batches of 1,000 rows."""
    with tempfile.TemporaryDirectory() as checkpoint:
        topic, more = topics.create(), batches * ROWS
        topics.append(topic, 0, open_sessions, open_sessions)
        run(WAYS[way](topics.load(topic, max(ROWS, min(open_sessions // 4, MOST_ROWS)))), checkpoint)
        topics.append(topic, open_sessions, open_sessions + more, open_sessions)
        return measure(partial(run, WAYS[way](topics.load(topic, ROWS)), checkpoint))


def main() -> None:
    """Print a table with a line for each number of open sessions and each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--open", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    lines = []
    with KafkaServer() as kafka:
        settings = {name: str(value) for name, value in tidegate.session_conf(worker_daemon=True).items()}
        spark = session(settings={**settings, **SETTINGS})
        topics = Topics(spark, kafka)
        for open_sessions in arguments.open:
            taken: dict[str, list[Measured[list[float]]]] = {way: [] for way in WAYS}
            for _ in range(arguments.rounds):
                for way, runs in taken.items():
                    runs.append(measured(way, topics, open_sessions, arguments.batches))
            for way, runs in taken.items():
                ms = statistics.median(statistics.median(one.result[NOT_COUNTED:]) for one in runs)
                cpu_s = statistics.median(one.whole_cpu_s / len(one.result) for one in runs)
                lines.append((f"{open_sessions:,}", way, f"{ms:,.0f}", f"{cpu_s:.2f}"))
        spark.stop()
    print_table(("open sessions", "way", "ms a batch", "CPU s a batch"), lines)


if __name__ == "__main__":
    main()
