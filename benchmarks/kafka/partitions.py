"""Measures plans and idle polls over topics with thousands of partitions, against a real broker.

    python -m benchmarks.kafka.partitions [--partitions 1000 5000] [--simulated 10000]

A coordinator runs in this process, without Spark.  It plans a back-fill of 6 hours in slices of an hour: each partition
has 60 records in two record batches of 15 KB.  Then it polls while nothing comes.  "CPU" is that of this process, the
planner's.  "Plan" is a batch from the third one on.  With ``--simulated`` the brokers are dictionaries in this process,
so nothing of the wire is measured.  The program fails if an idle poll takes more than 30 ms of CPU, or an offset of
10,000 partitions more than 120 KiB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from benchmarks.measuring.peers import print_table
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.enumerators.kafka.enumerator import KafkaTimestampEnumerator
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.readers.kafka.client import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.servers import KafkaServer
from tidegate.servers.batches import encode_batch

TOPIC = "orders"
BEGIN_MS, HOUR_MS, HOURS = 1_767_225_600_000, 3_600_000, 6
RECORDS, RECORD_BYTES = 60, 500
OFFSETS = (10**8, 10**9)  # of simulated partitions: positions have the digits of logs that are in use
TOGETHER = 200  # partitions in a request to produce
POLLS = 100
MOST_SIMULATED = 20_000  # partitions
WARM_FROM = 2  # batch
MOST_PLAN_MS, MOST_POLL_MS, MOST_OFFSET_KIB = 100.0, 30.0, 120.0
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

BEGINS = np.random.default_rng(7).integers(*OFFSETS, MOST_SIMULATED).tolist()
TIMES = np.linspace(BEGIN_MS, BEGIN_MS + HOURS * HOUR_MS, RECORDS, endpoint=False).astype(np.int64)


class SimulatedBrokers:
    """Answers as a ``KafkaClient`` does, from memory; all partitions are alike."""

    def __init__(self, partitions: int) -> None:
        self.config = KafkaConnectionConfig("nowhere:9092")
        self.cluster_id, self.topic_ids = "simulated", {TOPIC: UUID(int=1)}
        self._partitions = range(partitions)
        self._times = TIMES.tolist()
        self._listed: dict[int, dict[TopicPartition, ListedOffset]] = {}

    def partitions(self, *_: Any, **__: Any) -> dict[str, tuple[int, ...]]:
        """Return the only topic."""
        return {TOPIC: tuple(self._partitions)}

    def clock_ms(self) -> int | None:
        """Return None: no broker reports the time."""

    def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first record at or after each time, or the one that a special timestamp names."""
        special = {EARLIEST: (0, -1), LATEST: (RECORDS, -1), MAX_TIMESTAMP: (RECORDS - 1, self._times[-1])}
        offsets = {at: special.get(at) or self._first(at) for at in set(timestamps.values())}
        return {
            p: (offsets[at][0] + _begin(p) if offsets[at][0] >= 0 else -1, offsets[at][1])
            for p, at in timestamps.items()
        }

    def reachable_offsets(
        self, partitions: Collection[TopicPartition], point: int, **_: Any
    ) -> tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, Any]]:
        """Return the begins or the ends."""
        if point not in self._listed:  # they stay the same, and the planner is measured, not the simulation
            listed = self.list_offsets(dict.fromkeys(partitions, point))
            self._listed[point] = {p: ListedOffset(*answer, 4) for p, answer in listed.items()}
        return dict(self._listed[point]), {}

    def peek(self, positions: Mapping[TopicPartition, int], *_: Any, **__: Any) -> dict[TopicPartition, Any]:
        """Return the records at the positions."""
        return {
            p: (at, self._times[at - _begin(p)]) if at < _begin(p) + RECORDS else None for p, at in positions.items()
        }

    def wait(self, seconds: float) -> bool:
        """Return False: nothing came."""
        time.sleep(seconds)  # brokers hold a fetch for so long while nothing comes
        return False

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Do nothing in all other methods."""
        return lambda *_, **__: None

    def _first(self, at_ms: int) -> tuple[int, int]:
        place = int(np.searchsorted(TIMES, at_ms))
        return (place, self._times[place]) if place < RECORDS else (-1, -1)


def _begin(partition: TopicPartition) -> int:
    return BEGINS[partition.partition]


def fill(servers: str, partitions: int) -> None:
    """Write the same record batches to all partitions."""
    from kafka import KafkaAdminClient

    from tidegate.kafka_private import ProduceRequest, connections_of

    values = np.full((RECORDS, RECORD_BYTES), ord("."), np.uint8)
    half = RECORDS // 2
    batches = [encode_batch(TIMES[rows], None, values[rows], "none") for rows in (slice(half), slice(half, None))]
    topic = ProduceRequest.TopicProduceData

    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        manager = connections_of(admin)

        async def send() -> None:
            for batch in batches:
                for first in range(0, partitions, TOGETHER):
                    some = range(first, min(partitions, first + TOGETHER))
                    data = [topic.PartitionProduceData(index=number, records=batch) for number in some]
                    request = ProduceRequest(
                        transactional_id=None,
                        acks=-1,
                        timeout_ms=30_000,
                        topic_data=[topic(name=TOPIC, partition_data=data)],
                        min_version=7,
                        max_version=12,
                    )
                    answer = await manager.send(request, node_id=1)
                    if any(part.error_code for part in answer.responses[0].partition_responses):
                        raise SystemExit("the broker refused a batch")

        manager.run(send)


@contextmanager
def real_brokers(partitions: int) -> Iterator[Callable[[Any], SplitEnumerator]]:
    """Start a broker with the topic; yield a function that opens an enumerator."""
    # By default a broker sets aside 20 MB for the indexes of each partition.
    with KafkaServer(timeout_seconds=600, properties={"log.index.size.max.bytes": "65536"}) as kafka:
        kafka.create_topic(TOPIC, partitions)
        fill(kafka.bootstrap_servers, partitions)
        yield source(kafka.bootstrap_servers).enumerator


@contextmanager
def simulated_brokers(partitions: int) -> Iterator[Callable[[Any], SplitEnumerator]]:
    """Yield a function that opens an enumerator with simulated brokers."""

    def enumerator(state: Any) -> SplitEnumerator:
        made = source("nowhere:9092").enumerator(state)
        if not isinstance(made, KafkaTimestampEnumerator):
            raise TypeError(made)
        made._client = SimulatedBrokers(partitions)  # type: ignore[assignment]  # noqa: SLF001
        return made

    yield enumerator


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


class Measured(NamedTuple):
    """A row of the table, and its figures with limits: CPU of a plan and of an idle poll, and the largest offset."""

    row: list[str]
    plan_ms: float
    poll_ms: float
    offset_kib: float


def measured(partitions: int, open_enumerator: Callable[[Any], SplitEnumerator]) -> Measured:
    """Plan a topic of a number of partitions from its begin to its end."""
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
        spread(plans_cpu),
        spread(plans),
        f"{poll_ms:.2f} ms",
        f"{sizes[-1]:.1f} KiB",
        f"{sizes[0]:.1f} KiB",
        memory,
    ]
    return Measured(row, statistics.median(plans_cpu), poll_ms, max(sizes))


def spread(figures: Sequence[float]) -> str:
    """Return the median with the least and the greatest, as text."""
    return f"{statistics.median(figures):,.0f} ms ({min(figures):,.0f} to {max(figures):,.0f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, nargs="*", default=[1_000, 5_000])
    parser.add_argument("--simulated", type=int, nargs="*", default=[10_000])
    arguments = parser.parse_args()
    simulated, real = [], []
    for brokers, counts, taken in (
        (simulated_brokers, arguments.simulated, simulated),
        (real_brokers, arguments.partitions, real),
    ):
        for partitions in counts:
            with brokers(partitions) as open_enumerator:
                taken.append(measured(partitions, open_enumerator))
    named = [[f"{one.row[0]} simulated", *one.row[1:]] for one in simulated]
    print_table(COLUMNS, [*named, *(one.row for one in real)])
    both = [*simulated, *real]
    limits = [  # plans over a real broker also decode its answers, so they are not judged
        ("a plan takes {:.0f} ms of CPU, more than {:.0f}", [one.plan_ms for one in simulated], MOST_PLAN_MS),
        ("an idle poll takes {:.1f} ms of CPU, more than {:.0f}", [one.poll_ms for one in both], MOST_POLL_MS),
        ("an offset has {:.0f} KiB, more than {:.0f}", [one.offset_kib for one in both], MOST_OFFSET_KIB),
    ]
    if broken := [text.format(max(figures), most) for text, figures, most in limits if figures and max(figures) > most]:
        raise SystemExit("; ".join(broken))


if __name__ == "__main__":
    main()
