"""The state of a stream-stream join whose topics are hours apart, with one alignment group and without.

"orders" holds 12 hours, "payments" the last 6 of them.  Every payment has an order at most a minute
before it.  The inner join by key and time reads both with the same row budget per batch:

- with alignment off: payments are 6 hours ahead from the first batch on, and wait in the state until
  their orders come.
- in one alignment group: orders come alone at first, and no payment is ahead of them.  But Spark's
  watermark is the least of both sources, and is the epoch while one source has not delivered a row.
  So all orders of these 6 hours stay in the state.
- in one group with watermark rows: a row with only the source's watermark also moves Spark's watermark
  for the source that is paused.  The state then holds the rows of both topics within the max drift, the
  delay and the join's interval.  The program fails if the state is more than a tenth larger.

The program also measures the other way round, where the orders come late: payments of the first 6 hours
then have no order.

    python -m benchmarks.event_time.join [--rows 180000] [--rounds 1]   # about 3 minutes a round

Spark's watermark policy is its default, min.  With it no way loses a match, but the state grows.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from benchmarks.measuring.batches import STATE_COLUMNS, Measured, print_table, run_to_end, state_cells
from benchmarks.measuring.peers import session
from tidegate import KafkaSource, WatermarkStrategy, with_source_watermark
from tidegate.servers import KafkaServer, write_history

PARTITIONS = 2
BEGIN_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC
HOUR_MS = 3_600_000
HOURS, LATE_HOURS = 12, 6
LONGEST_MS = 60_000  # from an order to its payment
MAX_DRIFT = timedelta(hours=1)
DELAY = timedelta(minutes=1)
MOST_DRIFTS = 1.1  # of rows in the state, with watermark rows
BATCHES = 12  # of the longer topic, by the row budget
COLUMNS = ("", "matches found", *STATE_COLUMNS)


@dataclass(frozen=True, slots=True)
class Topic:
    """Records of two columns, sorted by time.

    numbers: of the order that each is about; its key.
    """

    name: str
    times_ms: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def since(self, begin_ms: int, name: str) -> Topic:
        """Return the records from a time on, as another topic."""
        late = self.times_ms >= begin_ms
        return Topic(name, self.times_ms[late], self.numbers[late])

    def write(self, kafka: KafkaServer) -> None:
        """Create the topic."""
        kafka.create_topic(self.name, PARTITIONS)
        for partition in range(PARTITIONS):
            mine = self.numbers % PARTITIONS == partition
            keys = self.numbers[mine].astype(">i8").view(np.uint8).reshape(-1, 8)
            write_history(kafka.bootstrap_servers, self.name, partition, self.times_ms[mine], keys=keys)


@dataclass(frozen=True, slots=True)
class Joined:
    """The result of a run.

    pairs: the number of rows that the join gave.
    distinct: the number of different ones.
    expected: the number of matches that there are.
    """

    run: Measured
    pairs: int
    distinct: int
    expected: int

    @property
    def matches(self) -> str:
        """The joined rows, the expected matches, and the number of rows that repeat a match."""
        doubled = self.pairs - self.distinct
        return f"{self.pairs:,} of {self.expected:,}" + (f", {doubled:,} of them again" if doubled else "")


def both_topics(rows: int) -> tuple[Topic, Topic]:
    """Return this number of orders over all hours, and their payments."""
    numbers = np.arange(rows)
    ordered = BEGIN_MS + numbers * HOURS * HOUR_MS // rows
    paid = ordered + np.random.default_rng(rows).integers(1, LONGEST_MS, rows)
    by_time = np.argsort(paid, kind="stable")
    return Topic("orders", ordered, numbers), Topic("payments", paid[by_time], numbers[by_time])


@dataclass(frozen=True, slots=True)
class Way:
    """How both topics are read.

    watermark_rows: a source that delivers no data also delivers its watermark.
    """

    name: str
    grouped: bool
    watermark_rows: bool = False


WAYS = (
    Way("alignment off", grouped=False),
    Way("one group", grouped=True),
    Way("one group, watermark rows", grouped=True, watermark_rows=True),
)


def joined(spark: SparkSession, servers: str, topics: tuple[Topic, Topic], way: Way, group: str) -> DataFrame:
    """Return the payments with their orders."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DELAY)
    if way.grouped:
        strategy = strategy.with_watermark_alignment(max_drift=MAX_DRIFT, group=group, members=len(topics))
    streams = [
        KafkaSource(
            bootstrap_servers=servers,
            subscribe=[topic.name],
            starting_offsets="earliest",
            max_offsets_per_trigger=max(len(numbered.numbers) for numbered in topics) // BATCHES,
            watermarks=strategy,
            alignment="event-time" if way.grouped else "none",
            include_source_watermark=way.watermark_rows,
            watermark_rows=way.watermark_rows,
        ).read_stream(spark)
        for topic in topics
    ]
    delay = f"{DELAY.seconds} seconds"
    if way.watermark_rows:
        orders, payments = (with_source_watermark(rows, "timestamp", delay) for rows in streams)
    else:
        orders, payments = (rows.withWatermark("timestamp", delay) for rows in streams)
    after = f"interval {LONGEST_MS} milliseconds"
    return orders.alias("o").join(
        payments.alias("p"),
        expr(f"o.key = p.key and p.timestamp between o.timestamp and o.timestamp + {after}"),
    )


def measured(spark: SparkSession, rows: DataFrame, topics: tuple[Topic, Topic], work: Path) -> Joined:
    """Run the join into Parquet files, and read these."""
    out = str(work / "out")
    run = run_to_end(rows.select(col("p.key")).writeStream.format("parquet").option("path", out), work / "checkpoint")
    pairs = spark.read.parquet(out)
    expected = len(np.intersect1d(topics[0].numbers, topics[1].numbers))
    return Joined(run, pairs.count(), pairs.distinct().count(), expected)


def row(name: str, joins: list[Joined]) -> list[str]:
    """Return a row of the table: the worst of all rounds."""
    return [name, min(joins, key=lambda join: join.distinct).matches, *state_cells([join.run for join in joins])]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=180_000, help="of the longer topic")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        spark = session()
        orders, payments = both_topics(arguments.rows)
        late_ms = BEGIN_MS + (HOURS - LATE_HOURS) * HOUR_MS
        late_orders, late_payments = orders.since(late_ms, "late-orders"), payments.since(late_ms, "late-payments")
        for topic in (orders, payments, late_orders, late_payments):
            topic.write(kafka)
        cases = [
            (f"{late} late, {way.name}", way, topics)
            for late, topics in (("payments", (orders, late_payments)), ("orders", (late_orders, payments)))
            for way in WAYS
        ]
        runs: dict[str, list[Joined]] = {name: [] for name, _, _ in cases}
        for number in range(1 + arguments.rounds):
            # The first query warms up.
            for name, way, topics in cases[: None if number else 1][:: 1 if number % 2 else -1]:
                rows = joined(spark, kafka.bootstrap_servers, topics, way, f"{name} {number}")
                with tempfile.TemporaryDirectory(dir=folder) as work:
                    result = measured(spark, rows, topics, Path(work))
                if number:
                    runs[name].append(result)
        spark.stop()
    print(f"{arguments.rows:,} rows in {HOURS} hours against the last {LATE_HOURS}, rounds: {arguments.rounds}")
    print_table(COLUMNS, [row(name, results) for name, results in runs.items()])
    in_a_drift = 2 * arguments.rows * (MAX_DRIFT / timedelta(hours=HOURS))
    worst = max(results.run.peak_state_rows for name, way, _ in cases if way.watermark_rows for results in runs[name])
    if worst > MOST_DRIFTS * in_a_drift:
        raise SystemExit(f"the state held {worst:,} rows, but both topics have only {in_a_drift:,.0f} in {MAX_DRIFT}")


if __name__ == "__main__":
    main()
