"""The contract of a split reader: the half of a connector that runs on the executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.alignment.splits import SplitRange

__all__ = ["ReadTask", "SplitReader", "SupportsBadRecords", "SupportsEventTimes", "TimedBatch", "TimedRows"]


class TimedBatch(NamedTuple):
    """Rows of one range, with their event times.

    number: of the range in its task, from 0.
    event_times: of each row, in ms since the epoch; null where it has none that is usable.
    set_aside: the rows that only watermark generators see, because they are no rows of the query; None: there are none.
    """

    number: int
    rows: pa.RecordBatch
    event_times: pa.Int64Array
    set_aside: pa.BooleanArray | None = None

    @property
    def delivered(self) -> pa.RecordBatch:
        """The rows of the query; there may be none."""
        return self.rows if self.set_aside is None else self.rows.filter(pc.invert(self.set_aside))


TimedRows: TypeAlias = Iterator[TimedBatch]


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The ranges that one Spark task reads, of one or more splits, in this order.

    details: of each range, by its enumerator (SupportsDetails); empty if the enumerator adds none.
    """

    ranges: tuple[SplitRange, ...]
    details: tuple[Any, ...] = ()


class SplitReader(ABC):
    """Reads ranges of splits as Arrow batches (FLIP-27: SplitReader).

    One instance is made per Spark task, in a Python worker on an executor.  It may open what it
    needs in ``read``; connections that outlive the task belong to the worker process.
    """

    @abstractmethod
    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the records of every range of ``task``, in position order within each range.

        Called once per attempt of a task.  Spark repeats a task after a failure, under speculation and for every action
        on the same batch.  So the same range must yield the same rows every time, even after the process that planned
        it has ended.

        Every batch has the source's schema exactly, also the last one.  A batch holds a bounded
        number of bytes, whatever the size of the range.  A position inside the range at which
        there is no record is skipped.  Never yields a record outside the range.  Not guaranteed:
        an order between ranges of different splits.

        Raises DataLossError when records of the range are gone, CorruptDataError when they cannot
        be decoded, DeadlineError when the other side does not answer in time.
        """


@runtime_checkable
class SupportsBadRecords(Protocol):
    """Sets bad records aside: they are written to a place of their own, and are no rows of the query.

    The source says whether it does so: ``Source.sets_bad_records_aside``.
    """

    @property
    def bad_records(self) -> Mapping[SplitRange, int]:
        """How many records of each range were set aside, as far as the range was read.

        Asked once, after the last row of a task.  A range without any may be left out.
        """

    def without_writing(self) -> SplitReader:
        """Return a reader of the same rows that writes no bad records, for the planner: executors write them."""


@runtime_checkable
class SupportsEventTimes(Protocol):
    """Knows the event times of the rows that it reads, so that watermark generators can see them."""

    def read_timed(self, task: ReadTask) -> TimedRows:
        """Yield the rows of ``read`` with their event times, and those that are set aside; a batch is of one range.

        Called in place of ``read`` where the source has watermark generators.  The same range must yield the same
        event times every time, in whatever task it is.
        """
