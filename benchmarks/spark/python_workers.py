"""Measures the gain of ``tidegate.session_conf()`` for Python functions of users, whose workers wait as tidegate's do.

    python -m benchmarks.spark.python_workers [--rounds 3] [--queries 30]

There are two kinds of work.  Each runs with every combination of the two settings, in its own Spark, by turns:

mapInPandas: a batch query of two tasks with one row each; the time is that of a query.
transformWithState: a stream that counts by key, 100 rows a batch; the time is that of a batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import tidegate
from benchmarks.measuring.peers import session

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BOTH = {name: str(value).lower() for name, value in tidegate.session_conf(worker_daemon=True).items()}
DAEMON = {name: value for name, value in BOTH.items() if name != UNIX_SOCKETS}
SETTINGS = {
    "without": {UNIX_SOCKETS: "false"},
    "Unix sockets": {UNIX_SOCKETS: "true"},
    "daemon": {UNIX_SOCKETS: "false", **DAEMON},
    "both": {UNIX_SOCKETS: "true", **DAEMON},
}
WARM_UP = 5


class Counts(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep a number for each key."""
        self.count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Add the rows of a batch to the key's number."""
        (before,) = self.count.get() or (0,)
        count = before + sum(1 for _ in rows)
        self.count.update((count,))
        yield Row(key=key[0], count=count)


def same(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Return the rows unchanged."""
    yield from frames


def map_in_pandas(spark: SparkSession, queries: int) -> list[float]:
    """Return the seconds of each query."""
    taken = []
    for _ in range(WARM_UP + queries):
        begun = time.perf_counter()
        spark.range(2, numPartitions=2).mapInPandas(same, "id long").collect()
        taken.append(time.perf_counter() - begun)
    return taken[WARM_UP:]


def transform_with_state(spark: SparkSession, batches: int) -> list[float]:
    """Return the seconds of each batch."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    counted = rows.selectExpr("value % 10 AS key").groupBy("key")
    counts = counted.transformWithState(Counts(), "key long, count long", outputMode="update", timeMode="None")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        query = writer.start()
        while len(query.recentProgress) < WARM_UP + batches:
            query.awaitTermination(0.05)  # it ends only by an error
        progress = query.recentProgress
        query.stop()
    return [entry.durationMs["triggerExecution"] / 1000 for entry in progress][WARM_UP:]


def measured(setting: str, queries: int) -> dict[str, list[float]]:
    """Return the seconds of both kinds of work, in a Spark with this setting."""
    spark = session(settings={**SETTINGS[setting], "spark.sql.streaming.stateStore.providerClass": ROCKSDB})
    try:
        return {
            "mapInPandas": map_in_pandas(spark, queries),
            "transformWithState": transform_with_state(spark, queries),
        }
    finally:
        spark.stop()


def in_a_process_of_its_own(setting: str, queries: int) -> dict[str, list[float]]:
    """Return the result of ``measured``: the settings are fixed for a process's life."""
    command = [sys.executable, "-m", "benchmarks.spark.python_workers", "--queries", str(queries), "--setting", setting]
    *_, last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return json.loads(last)  # type: ignore[no-any-return]


def main() -> None:
    """Print a line per kind of work and setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--setting", choices=SETTINGS, help="measure in this process, and print JSON")
    arguments = parser.parse_args()
    if arguments.setting:
        print(json.dumps(measured(arguments.setting, arguments.queries)))
        return
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for setting in SETTINGS:
            for work, seconds in in_a_process_of_its_own(setting, arguments.queries).items():
                taken.setdefault((work, setting), []).append(statistics.median(seconds))
    for (work, setting), medians in sorted(taken.items()):
        least, median, most = (1000 * f(medians) for f in (min, statistics.median, max))
        print(f"{work:20} {setting:14} {median:.0f} ms ({least:.0f} to {most:.0f})")


if __name__ == "__main__":
    main()
