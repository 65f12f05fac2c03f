"""Measures the broker's work for plans by event times in the payload, which Kafka does not index.

The planner then looks at single records, and remembers them.  Its coordinator runs in this
process, without Spark, against a real broker, and plans a back-fill in slices of event time.  For
comparison the same topic is planned by record timestamps, for which Kafka has an index.

    python -m benchmarks.kafka.probes [--rows 1000000]

The program counts for each batch, from the fourth on:

- ``peeks`` and ``lookups`` of the report, each of which asks for many partitions at once;
- single records that were looked at, per partition;
- fetch responses, and their bytes.

The records come with exponential gaps, busier by day than by night, and up to a minute out of order.  Record batches
have some 16 KB, the default of producers.  "Past the bound" is how far the latest record of any batch is past its bound
in event time.  Probing promises at most the disorder of a minute; the program fails if there is more.  It also fails if
in any row the median of the records looked at per partition is above eight.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.batches import print_table
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.coordinator import CoordinatorSettings, SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, Offset
from tidegate.readers.kafka import fetch as kafka_fetch
from tidegate.readers.kafka import fetch_call as kafka_fetch_call
from tidegate.servers import KafkaServer, write_history

BEGIN_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC
HOUR_MS = 3_600_000
HOURS = 24
SLICE = timedelta(minutes=30)
DISORDER = timedelta(minutes=1)
PARTITION_COUNTS = (4, 64)
SLICES_PER_BUDGET = 0.5
WARM_FROM = 3  # batch
MOST_LOOKS = 8  # at single records per partition and batch, once warm
TEMPLATE = b'{"at":1767225600000,"order":"................................................................."}'
AT, DIGITS = TEMPLATE.index(b"1"), 13
RECORDS_PER_BATCH = 16_384 // len(TEMPLATE)
COLUMNS = (
    "partitions",
    "event times",
    "row budget",
    "batches",
    "peeks",
    "lookups",
    "records looked at per partition",
    "fetch responses",
    "fetched",
    "past the bound",
    "plan",
)


@dataclass(slots=True)
class Fetched:
    """The broker's answers to peeks.

    records: the records that were looked at, one for each partition of a response.
    """

    responses: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Planned:
    """One batch.

    past_ms: how far its latest record is past its bound; negative: before it.
    """

    asked: dict[str, int]
    fetched: Fetched
    past_ms: int
    seconds: float


@dataclass(slots=True)
class Meter:
    """Counts fetch responses as they are read."""

    since: Fetched = field(default_factory=Fetched)

    def take(self) -> Fetched:
        """Return the counts since the last call."""
        taken, self.since = self.since, Fetched()
        return taken

    def reading(self, read: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Return a function that reads responses, and counts them."""

        def counted(frame: memoryview, *how: Any) -> Iterator[Any]:
            self.since.responses += 1
            self.since.bytes += len(frame)
            for partition in read(frame, *how):
                self.since.records += 1
                yield partition

        return counted


def random_times(rows: int, dice: np.random.Generator) -> NDArray[np.int64]:
    """Return the event times of a partition in the order of their arrival."""
    hours = np.linspace(0, HOURS, 24 * 60 + 1)
    busy = np.cumsum(1 - 0.8 * np.cos(hours * 2 * np.pi / HOURS))  # five to nine times as much by day
    steps = np.cumsum(dice.exponential(size=rows))
    arrived = np.interp(steps / (steps[-1] + 1) * busy[-1], busy, hours * HOUR_MS)
    late = dice.uniform(0, DISORDER // timedelta(milliseconds=1), rows)
    return np.asarray(BEGIN_MS + arrived - late, np.int64)


def json_values(times_ms: NDArray[np.int64]) -> Callable[[int, int], NDArray[np.uint8]]:
    """Return the records' values: one length, with the time at one place."""

    def rows(start: int, stop: int) -> NDArray[np.uint8]:
        values = np.tile(np.frombuffer(TEMPLATE, np.uint8), (stop - start, 1))
        powers = 10 ** np.arange(DIGITS - 1, -1, -1)
        values[:, AT : AT + DIGITS] = ord("0") + times_ms[start:stop, None] // powers % 10
        return values

    return rows


def plan_all(
    source: KafkaSource, budget: Budget, history: Mapping[SplitId, NDArray[np.int64]], meter: Meter
) -> list[Planned]:
    """Plan a bounded run to its end, as Spark would ask for it."""
    settings = CoordinatorSettings(watermarks=source.watermarks)
    planned: list[Planned] = []
    with closing(SourceCoordinator(source.connector, source.enumerator, settings, cores=2)) as coordinator:
        coordinator.bound_run()
        start: Json = INITIAL_OFFSET
        while True:
            meter.take()
            begun = time.perf_counter()
            end = coordinator.latest_offset(start, budget)
            seconds = time.perf_counter() - begun
            if end == start:
                return planned
            report = coordinator.source_progress() or {}
            asked = {name: report[name] for name in ("peeks", "lookups")}
            past_ms = latest_read_ms(start, end, history) - report["bound"]
            planned.append(Planned(asked, meter.take(), past_ms, seconds))
            start = end


def latest_read_ms(start: Json, end: Json, history: Mapping[SplitId, NDArray[np.int64]]) -> int:
    """Return the greatest event time between two offsets; 0: there is none."""
    before, after = Offset.from_json(start).progress.positions, Offset.from_json(end).progress.positions
    read = (times[before.get(split, 0) : after[split]] for split, times in history.items())
    return max((int(times.max()) for times in read if len(times)), default=0)


def middle(figures: Sequence[float], unit: str = "") -> str:
    """Return the median with the least and the greatest, as text."""
    return f"{statistics.median(figures):,.4g}{unit} ({min(figures):,.4g} to {max(figures):,.4g})"


def looks(partitions: int, planned: list[Planned]) -> list[float]:
    """Return how many records each batch looked at per partition, once warm."""
    return [plan.fetched.records / partitions for plan in planned[WARM_FROM:]]


def row(partitions: int, event_time: str, budget: Budget, planned: list[Planned]) -> list[str]:
    """Return a row of the table."""
    warm = planned[WARM_FROM:]
    return [
        str(partitions),
        event_time,
        "none" if budget.rows is None else f"{budget.rows:,}",
        str(len(planned)),
        middle([plan.asked["peeks"] for plan in warm]),
        middle([plan.asked["lookups"] for plan in warm]),
        middle(looks(partitions, planned)),
        middle([plan.fetched.responses for plan in warm]),
        middle([plan.fetched.bytes / 2**20 for plan in warm], " MiB"),
        f"{max(0, *(plan.past_ms for plan in planned)) / 1000:.1f} s",
        middle([plan.seconds * 1000 for plan in warm], " ms"),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    meter, rows = Meter(), []
    worst_ms, most_looks = 0, 0.0
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER).with_watermark_alignment(max_drift=SLICE)
    half_a_slice = Budget(rows=int(arguments.rows * SLICES_PER_BUDGET * (SLICE / timedelta(hours=HOURS))))
    counted = meter.reading(kafka_fetch.read_fetch_response)
    with KafkaServer() as kafka, patch.object(kafka_fetch_call, "read_fetch_response", counted):
        for partitions in PARTITION_COUNTS:
            topic = f"orders-of-{partitions}"
            kafka.create_topic(topic, partitions)
            dice = np.random.default_rng(partitions)
            history = {f"{topic}-{p}": random_times(arguments.rows // partitions, dice) for p in range(partitions)}
            for partition, times_ms in enumerate(history.values()):
                write_history(
                    kafka.bootstrap_servers,
                    topic,
                    partition,
                    times_ms,
                    values=json_values(times_ms),
                    records_per_batch=RECORDS_PER_BATCH,
                )
            for event_time in ("json:/at", "timestamp"):
                source = KafkaSource(
                    bootstrap_servers=kafka.bootstrap_servers,
                    subscribe=[topic],
                    starting_offsets="earliest",
                    event_time=event_time,
                    watermarks=strategy,
                )
                for budget in (Budget(), half_a_slice):
                    planned = plan_all(source, budget, history, meter)
                    worst_ms = max(worst_ms, *(plan.past_ms for plan in planned))
                    most_looks = max(most_looks, statistics.median(looks(partitions, planned)))
                    rows.append(row(partitions, event_time, budget, planned))
    print(f"{arguments.rows:,} rows in {HOURS} hours, {SLICE} a batch, from batch {WARM_FROM} on")
    print_table(COLUMNS, rows)
    if worst_ms > DISORDER // timedelta(milliseconds=1):
        raise SystemExit(f"a record lies {worst_ms} ms past its batch's bound, more than the disorder of {DISORDER}")
    if most_looks > MOST_LOOKS:
        raise SystemExit(f"a batch looks at {most_looks:.1f} records per partition, more than {MOST_LOOKS}")


if __name__ == "__main__":
    main()
