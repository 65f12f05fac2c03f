"""The cost of watermark generators: of reading with them, and of the channel by which readers send their watermarks.

    python -m benchmarks.event_time.generators [--rows 2000000] [--rounds 5]

Reading: a task reads a topic in this process, without Spark.  It does so by turns without generators, with a generator
that does nothing, and with bounded out-of-orderness.  The first topic has 4 large partitions.  The second has 500
small ones, whose ranges are fetched together.

Channel: a task sends the events of a number of splits over loopback.  The time is that of one task; the CPU is that of
both ends.  At 1,000,000 rows/s a batch of two tasks a second takes twice that CPU out of each second.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.measuring.batches import print_table
from tidegate import KafkaSource
from tidegate.alignment.generators.split_watermark import SplitWatermark
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.events.server import EventServer
from tidegate.readers.contract import ReadTask
from tidegate.readers.events.event import WATERMARK, SourceEvent
from tidegate.readers.events.send import send
from tidegate.readers.events.watching import Watching, timed_reader, watched
from tidegate.servers import KafkaServer, write_history
from tidegate.watermarks import BoundedOutOfOrdernessWatermarks, GeneratorSupplier, WatermarkGenerator, WatermarkOutput

BEGIN_MS = 1_767_225_600_000
LARGE, SMALL = 4, 500
SMALL_ROWS = 200
SPLITS = (1, 16, 256)
TASKS_A_SECOND = 2
EVENTS = 200


class Nothing(WatermarkGenerator):
    """Does nothing."""

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Ignore the rows."""


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def reading(kafka: KafkaServer, server: EventServer, partitions: int, rows: int, rounds: int) -> list[list[str]]:
    """Return the rows of the table for one topic."""
    topic = f"generators-{partitions}"
    kafka.create_topic(topic, partitions)
    for partition in range(partitions):
        write_history(kafka.bootstrap_servers, topic, partition, BEGIN_MS + np.arange(rows, dtype=np.int64))
    source = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=[topic], starting_offsets="earliest")
    task = ReadTask(tuple(SplitRange(f"{topic}-{partition}", 0, rows) for partition in range(partitions)))

    def batches(supplier: GeneratorSupplier | None, told: list[SourceEvent]) -> Iterator[pa.RecordBatch]:
        reader = source.reader(None)
        if supplier is None:
            return reader.read(task)
        before = (SplitWatermark(),) * partitions
        return watched(timed_reader("kafka", reader), Watching(supplier, before), task, told)

    def read(supplier: GeneratorSupplier | None) -> None:
        told: list[SourceEvent] = []
        total = sum(batch.num_rows for batch in batches(supplier, told))
        send(server.channel, told)
        if total != partitions * rows:
            raise RuntimeError(f"{total} rows were read of {partitions * rows}")

    ways: dict[str, GeneratorSupplier | None] = {
        "none": None,
        "does nothing": Nothing,
        "bounded": lambda: BoundedOutOfOrdernessWatermarks(timedelta(seconds=5)),
    }
    for supplier in ways.values():
        read(supplier)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, supplier in ways.items():
            seconds[name].append(seconds_of(partial(read, supplier)))
    server.take(WATERMARK)
    base = statistics.median(seconds["none"])
    return [
        [
            f"{partitions} partitions of {rows:,} rows",
            name,
            f"{statistics.median(taken) * 1000:.0f} ms",
            f"{statistics.median(taken) / base:.2f}x",
        ]
        for name, taken in seconds.items()
    ]


def telling(server: EventServer, splits: int) -> list[str]:
    """Return the row of the table for tasks of a number of splits."""
    events = [SourceEvent(f"orders-{n}", 0, 1000, {"watermark": BEGIN_MS}) for n in range(splits)]
    cpu_s, seconds = time.process_time(), []
    for _ in range(EVENTS):
        seconds.append(seconds_of(lambda: send(server.channel, events)))
        server.take(WATERMARK)
    each_cpu_s = (time.process_time() - cpu_s) / EVENTS
    return [
        f"{splits}",
        f"{statistics.median(seconds) * 1000:.2f} ms",
        f"{each_cpu_s * 1000:.2f} ms",
        f"{TASKS_A_SECOND * each_cpu_s * 100:.2f} %",
    ]


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with closing(EventServer("127.0.0.1")) as server:
        print_table(
            ["splits of a task", "telling takes", "CPU of both ends", f"of a core, {TASKS_A_SECOND} tasks a second"],
            [telling(server, splits) for splits in SPLITS],
        )
        with KafkaServer() as kafka:
            rows = reading(kafka, server, LARGE, arguments.rows // LARGE, arguments.rounds)
            rows += reading(kafka, server, SMALL, SMALL_ROWS, arguments.rounds)
        print_table(["one task", "generator", "median", "against none"], rows)


if __name__ == "__main__":
    main()
