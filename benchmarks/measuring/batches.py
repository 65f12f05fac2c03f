"""Figures of a finished streaming query: its state, its batches, and the ranges that they read.

Spark's JSON is read here and not by ``QueryProgress``, because runs of Spark's own Kafka source and the bytes of the
state are also measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.measuring.peers import spread
from tidegate.enumerators.planning.offset import Offset

__all__ = ["STATE_COLUMNS", "Measured", "most", "print_table", "run_to_end", "size", "state_cells"]

STATE_COLUMNS = ("state rows at most", "state at most", "memory for it", "batches with rows", "time")

_MEBIBYTE = 1 << 20
_CURRENT_VERSION = "stateOnCurrentVersionSizeBytes"  # the size of the state in a checkpoint, by Spark's own estimate


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a query.

    progress: all that Spark reported, as JSON.  Its session must keep as much.
    seconds: wall-clock time from start to end.
    """

    progress: tuple[Mapping[str, Any], ...]
    seconds: float

    @property
    def batches(self) -> int:
        """The number of batches that read something."""
        return sum(batch["numInputRows"] > 0 for batch in self.progress)

    @property
    def peak_state_rows(self) -> int:
        """The most rows in all stateful operators after any batch."""
        return self._peak(lambda operator: operator["numRowsTotal"])

    @property
    def peak_state_bytes(self) -> int:
        """The greatest size of the state after any batch."""
        return self._peak(lambda operator: operator["customMetrics"][_CURRENT_VERSION])

    @property
    def peak_memory_bytes(self) -> int:
        """The most memory that the state took: Spark also keeps the last version."""
        return self._peak(lambda operator: operator["memoryUsedBytes"])

    def ranges(self) -> list[dict[str, tuple[int, int]]]:
        """Return the range of each batch by split: the first offset, and the one after the last.

        A split that was not read has an empty range.  Topics must begin at offset 0.
        """
        return [
            {
                split: (before.get(split, 0), end)
                for source in batch["sources"]
                for before in [_positions(source["startOffset"])]
                for split, end in _positions(source["endOffset"]).items()
            }
            for batch in self.progress
        ]

    def _peak(self, figure: Any) -> int:
        return max((sum(map(figure, batch["stateOperators"])) for batch in self.progress), default=0)


def run_to_end(writer: DataStreamWriter, checkpoint: Path) -> Measured:
    """Read all rows with Trigger.AvailableNow.  Raises the error of the query."""
    begun = time.perf_counter()
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begun
    return Measured(tuple(json.loads(batch.json) for batch in query.recentProgress), seconds)


def most(figures: Sequence[int]) -> str:
    """Return the greatest figure, and the least one where they differ."""
    least, greatest = min(figures), max(figures)
    return f"{greatest:,}" if least == greatest else f"{least:,} to {greatest:,}"


def state_cells(runs: Sequence[Measured]) -> list[str]:
    """Return the cells below STATE_COLUMNS: the worst of all runs, and times as their median and spread."""
    return [
        most([run.peak_state_rows for run in runs]),
        size(max(run.peak_state_bytes for run in runs)),
        size(max(run.peak_memory_bytes for run in runs)),
        most([run.batches for run in runs]),
        spread([run.seconds for run in runs]),
    ]


def size(number: int) -> str:
    """Return a number of bytes as text."""
    return f"{number / _MEBIBYTE:.2f} MiB" if number > _MEBIBYTE // 10 else f"{number:,} bytes"


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print Markdown."""
    for cells in (names, ["---"] * len(names), *rows):
        print(f"| {' | '.join(cells)} |", flush=True)


def _positions(offset: Mapping[str, Any] | None) -> dict[str, int]:
    """Return positions by split, from an offset of tidegate's or of Spark's own Kafka source."""
    if offset is None:
        return {}
    ours = Offset.recognized(offset)
    if ours is not None:
        return dict(ours.progress.positions)
    return {f"{topic}-{partition}": end for topic, ends in offset.items() for partition, end in ends.items()}
