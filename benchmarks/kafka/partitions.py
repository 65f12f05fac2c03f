"""Measures plans and idle polls over topics with thousands of partitions, against a real broker.

    python -m benchmarks.kafka.partitions [--partitions 1000 5000]

A coordinator runs in this process, without Spark.  It plans a back-fill of 6 hours in slices of an hour: each partition
has 60 records in two record batches of 15 KB.  Then it polls while nothing comes.  "CPU" is that of this process, the
planner's.  "Plan" is a batch from the third one on.  The program fails if an idle poll takes more than 30 ms of CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring.rounds import print_table, spread
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.servers import KafkaServer
from tidegate.servers.history import encode_batch, write_batches

TOPIC = "orders"
BEGIN_MS, HOUR_MS, HOURS = 1_767_225_600_000, 3_600_000, 6
RECORDS, RECORD_BYTES = 60, 500
POLLS = 100
WARM_FROM = 2  # batch
MOST_POLL_MS = 30.0
COLUMNS = (
    "partitions",
    "first plan",
    "plan, CPU",
    "plan",
    "idle poll, CPU",
    "offset",
    "first offset",
    "memory of the planner",
)

TIMES = np.linspace(BEGIN_MS, BEGIN_MS + HOURS * HOUR_MS, RECORDS, endpoint=False).astype(np.int64)


def fill(servers: str, partitions: int) -> None:
    """Write the same record batches to all partitions."""
    values = np.full((RECORDS, RECORD_BYTES), ord("."), np.uint8)
    half = RECORDS // 2
    batches = [encode_batch(TIMES[rows], values[rows], "none") for rows in (slice(half), slice(half, None))]
    write_batches(servers, TOPIC, ((number, batch) for batch in batches for number in range(partitions)))


@contextmanager
def real_brokers(partitions: int) -> Iterator[Callable[[Any], SplitEnumerator]]:
    """Start a broker with the topic; yield a function that opens an enumerator."""
    # By default a broker sets aside 20 MB for the indexes of each partition.
    with KafkaServer(timeout_seconds=600, properties={"log.index.size.max.bytes": "65536"}) as kafka:
        kafka.create_topic(TOPIC, partitions)
        fill(kafka.bootstrap_servers, partitions)
        yield source(kafka.bootstrap_servers).enumerator


def source(servers: str) -> KafkaSource:
    """Return the source that is planned."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    return KafkaSource(
        bootstrap_servers=servers,
        subscribe=[TOPIC],
        starting_offsets="earliest",
        watermarks=strategy.with_watermark_alignment(max_drift=timedelta(hours=1)),
    )


def memory_mib() -> float:
    """Return the resident memory of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024


def measured(partitions: int, open_enumerator: Callable[[Any], SplitEnumerator]) -> tuple[list[str], float]:
    """Plan a topic of a number of partitions from its begin to its end; return the row, and the CPU of an idle poll."""
    settings = CoordinatorSettings(source("nowhere:9092").watermarks)
    before_mib = memory_mib()
    cpu_ms: list[float] = []
    wall_ms: list[float] = []
    sizes: list[float] = []
    with closing(SourceCoordinator("kafka", open_enumerator, settings, cores=2)) as run:
        start, end = None, INITIAL_OFFSET
        while end != start:
            start, cpu, wall = end, time.process_time(), time.perf_counter()
            end = run.latest_offset(start)
            cpu_ms.append((time.process_time() - cpu) * 1000)
            wall_ms.append((time.perf_counter() - wall) * 1000)
            sizes.append(len(json.dumps(end)) / 1024)
        run.latest_offset(start)
        cpu = time.process_time()
        for _ in range(POLLS):
            run.latest_offset(start)
        poll_ms = (time.process_time() - cpu) * 1000 / POLLS
        memory = f"{memory_mib():.0f} MiB, {before_mib:.0f} before"
    plans_cpu, plans = cpu_ms[WARM_FROM:-1], wall_ms[WARM_FROM:-1]
    row = [
        f"{partitions:,}",
        f"{wall_ms[0] / 1000:.2f} s",
        spread(plans_cpu, "ms", 0),
        spread(plans, "ms", 0),
        f"{poll_ms:.2f} ms",
        f"{sizes[-1]:.1f} KiB",
        f"{sizes[0]:.1f} KiB",
        memory,
    ]
    return row, poll_ms


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, nargs="*", default=[1_000, 5_000])
    rows, slowest_ms = [], 0.0
    for partitions in parser.parse_args().partitions:
        with real_brokers(partitions) as open_enumerator:
            row, poll_ms = measured(partitions, open_enumerator)
        rows.append(row)
        slowest_ms = max(slowest_ms, poll_ms)
    print_table(COLUMNS, rows)
    if slowest_ms > MOST_POLL_MS:
        raise SystemExit(f"an idle poll takes {slowest_ms:.1f} ms of CPU, more than {MOST_POLL_MS:.0f}")


if __name__ == "__main__":
    main()
