"""The contract of a split reader: the half of a connector that runs on the executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from tidegate.alignment.splits import Horizon, SplitRange
from tidegate.readers.arrow import compute as pc


class TimedBatch(NamedTuple):
    """Rows of one range, with their event times.

    number: the index of the range in its task.
    rows: the rows, in the source's schema.
    event_times: the event time of each row, in ms since the epoch; null for a row without a usable one.
    set_aside: marks the rows that the query does not get; only watermark generators see them.
    """

    number: int
    rows: pa.RecordBatch
    event_times: pa.Int64Array
    set_aside: pa.BooleanArray | None = None

    @property
    def left(self) -> int:
        """How many rows are of the query."""
        marked = 0 if self.set_aside is None else self.set_aside.true_count
        return int(self.rows.num_rows - marked)

    @property
    def delivered(self) -> pa.RecordBatch:
        """The rows of the query; there may be none."""
        return self.rows if self.set_aside is None else self.rows.filter(pc.invert(self.set_aside))


TimedRows: TypeAlias = Iterator[TimedBatch]


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The ranges that one Spark task reads, in this order.

    ranges: ranges of one or several splits.
    details: what the enumerator's ``details`` returned for each range; may be empty in tests.
    horizon: where the future began for the plan; the same whenever the batch is read.
    """

    ranges: tuple[SplitRange, ...]
    details: tuple[Any, ...] = ()
    horizon: Horizon = field(default_factory=Horizon)


class SplitReader(ABC):
    """Reads ranges of splits as Arrow batches (FLIP-27: SplitReader).

    Each Spark task makes one instance, in a Python worker on an executor.  ``read`` may open connections; those that
    outlive the task belong to the worker process.
    """

    @abstractmethod
    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the records of every range of ``task``, in position order within each range.

        Called once per attempt of a task.  Spark repeats a task after a failure, under speculation and for every action
        on the same batch, so the same range must yield the same rows every time, even after the process that planned
        it has ended.

        Every batch has exactly the source's schema, also the last one.  A batch holds a bounded number of bytes,
        whatever the size of the range.  Positions without a record are skipped.  Never yields a record outside the
        range.  The order of ranges of different splits is not guaranteed.

        Raises DataLossError if records of the range are gone, and CorruptDataError if they cannot be decoded.  Raises
        DeadlineError if the other side does not answer in time.
        """


@runtime_checkable
class SupportsBadRecords(Protocol):
    """Sets bad records aside: they are written to a place of their own, and the query does not get them.

    ``Source.sets_bad_records_aside`` declares whether the source does so.
    """

    @property
    def bad_records(self) -> Mapping[SplitRange, int]:
        """The number of records of each range that were set aside, as far as the range was read.

        Requested once, after the last row of a task.  A range without bad records may be left out.
        """

    def without_writing(self) -> SplitReader:
        """Return a reader of the same rows that writes no bad records, for the planner."""


@runtime_checkable
class SupportsEventTimes(Protocol):
    """Gives the event times of the rows that it reads, which watermark generators need."""

    def read_timed(self, task: ReadTask) -> TimedRows:
        """Yield the rows of ``read`` and the rows that are set aside, with their event times.

        All rows of a batch are of one range.  Called instead of ``read`` if the source has watermark generators.  The
        same range must yield the same event times every time, in any task.
        """
