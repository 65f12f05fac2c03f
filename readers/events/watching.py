"""Reads a task while the watermark generators of its splits look on, and tells the coordinator what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.alignment.generators.contract import GeneratorSupplier
from tidegate.alignment.generators.split_watermark import GeneratorRun, SplitWatermark, new_generator
from tidegate.errors import ContractError
from tidegate.readers.contract import ReadTask, SplitReader, SupportsEventTimes
from tidegate.readers.events.event import EventChannel, SourceEvent
from tidegate.readers.events.send import send

__all__ = ["Watching", "timed_reader", "watched"]


@dataclass(frozen=True, slots=True)
class Watching:
    """The needs of a task's generators.

    supplier: makes them.
    before: for each range, what the generator of its split has said before it.
    channel: to the coordinator.
    batch: the coordinator's number of the batch.
    promised_ms: the source's watermark before the batch; None: there is none.
    """

    supplier: GeneratorSupplier
    before: tuple[SplitWatermark, ...]
    channel: EventChannel
    batch: int = 0
    promised_ms: int | None = None


def timed_reader(connector: str, reader: SplitReader) -> SupportsEventTimes:
    """Return a reader as one that knows event times.  Raises ContractError if it does not."""
    if not isinstance(reader, SupportsEventTimes):
        raise ContractError(f"the reader of {connector!r} has no read_timed(), which watermark generators need")
    return reader


def watched(reader: SupportsEventTimes, watching: Watching, task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; at the end, tell what the generators say of its ranges."""
    runs = [GeneratorRun(new_generator(watching.supplier), before, watching.promised_ms) for before in watching.before]
    for number, batch, event_times in reader.read_timed(task):
        runs[number].add(batch, event_times)
        yield batch
    events = [
        SourceEvent(wanted.split_id, wanted.start, wanted.end, run.said(), batch=watching.batch)
        for wanted, run in zip(task.ranges, runs, strict=True)
    ]
    send(watching.channel, events)
