"""Reads a task, and passes its rows to the watermark generators of its splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.alignment.generators.contract import GeneratorSupplier
from tidegate.alignment.generators.split_watermark import GeneratorRun, SplitWatermark, new_generator
from tidegate.errors import ContractError
from tidegate.readers.contract import ReadTask, SplitReader, SupportsEventTimes
from tidegate.readers.events.event import SourceEvent


@dataclass(frozen=True, slots=True)
class Watching:
    """The input of a task's generators, besides rows.

    before: for each range, the last report of the split's generator before the range.
    batch: the coordinator's number of the batch.
    promised_ms: the source's watermark before the batch.
    """

    supplier: GeneratorSupplier
    before: tuple[SplitWatermark, ...]
    batch: int = 0
    promised_ms: int | None = None


def timed_reader(connector: str, reader: SplitReader) -> SupportsEventTimes:
    """Return a reader as one that gives event times.  Raises ContractError if it does not."""
    if not isinstance(reader, SupportsEventTimes):
        raise ContractError(f"the reader of {connector!r} has no read_timed(), which watermark generators need")
    return reader


def watched(
    reader: SupportsEventTimes, watching: Watching, task: ReadTask, events: list[SourceEvent]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; ``events`` receives the generator's report for each range after the last row."""
    runs = [GeneratorRun(new_generator(watching.supplier), before, watching.promised_ms) for before in watching.before]
    for timed in reader.read_timed(task):
        runs[timed.number].add(timed.rows, timed.event_times)
        if (delivered := timed.delivered).num_rows:
            yield delivered
    events += [
        SourceEvent(wanted.split_id, wanted.start, wanted.end, run.said(), batch=watching.batch)
        for wanted, run in zip(task.ranges, runs, strict=True)
    ]
