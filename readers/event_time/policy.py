"""Which event time a row counts with, and what becomes of rows without a usable one.

One decision for both sides: the planner's peeks leave out what the executors deliver without an
event time, and both refuse the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.assigners import (
    BadEventTime,
    HeaderTimestamp,
    JsonTimestamp,
    RecordTimestamp,
    TimestampAssigner,
    TimeUnit,
    event_times,
)

__all__ = ["BAD", "FUTURE", "EventTimePolicy", "FutureEventTime"]

BAD = "bad"
"""What is wrong with a time that is missing, unparsable, negative or too large."""

FUTURE = "future"
"""What is wrong with a time that lies further ahead of the clock than allowed."""

FutureEventTime: TypeAlias = Literal["ignore", "hold", "fail"]
"""What becomes of a row whose event time lies too far ahead of the clock: it is delivered, and planning and
watermark leave it out; its split waits until the time has come; or the query fails."""


@dataclass(frozen=True, slots=True)
class EventTimePolicy:
    """Takes event times from rows.

    assigner: where they come from.
    bad: what becomes of rows whose time is missing, unparsable or negative.
    future: what becomes of rows further ahead of the clock than ``max_future_skew_ms``.
    """

    assigner: TimestampAssigner = field(default_factory=RecordTimestamp)
    bad: BadEventTime = "fail"
    future: FutureEventTime = "ignore"
    max_future_skew_ms: int = 86_400_000

    @property
    def by_record_timestamp(self) -> bool:
        """Whether Kafka's own time index knows the times."""
        return isinstance(self.assigner, RecordTimestamp)

    @property
    def needs_headers(self) -> bool:
        """Whether the assigner must see the column ``headers``."""
        return not isinstance(self.assigner, RecordTimestamp | JsonTimestamp)

    @property
    def refuses_rows(self) -> bool:
        """Whether every row must be looked at, for one may fail the query."""
        return self.bad != "ignore" or self.future == "fail"

    @property
    def unit_is_unknown(self) -> bool:
        """Whether the unit of the times is still to be detected."""
        return isinstance(self.assigner, HeaderTimestamp | JsonTimestamp) and self.assigner.unit is None

    def with_unit(self, unit: TimeUnit | None) -> EventTimePolicy:
        """Return this policy with the unit that was detected, where one is wanted."""
        if unit is None or not isinstance(self.assigner, HeaderTimestamp | JsonTimestamp):
            return self
        return replace(self, assigner=self.assigner.with_unit(unit))

    def detect(self, batch: pa.RecordBatch) -> TimeUnit | None:
        """Return the unit of the first usable time in a batch; None: there is none, or none is wanted."""
        if isinstance(self.assigner, HeaderTimestamp | JsonTimestamp) and self.unit_is_unknown:
            return self.assigner.detect(batch)
        return None

    def horizon_ms(self, now_ms: int) -> int:
        """Return the greatest event time that is not in the future."""
        return now_ms + self.max_future_skew_ms

    def times(self, batch: pa.RecordBatch, now_ms: int) -> pa.Int64Array:
        """Return the event times of a batch in milliseconds; null where planning leaves the row out.

        Raises CorruptDataError for the first row that the policy refuses.
        """
        return self.judge(batch, now_ms)[0]

    def judge(self, batch: pa.RecordBatch, now_ms: int) -> tuple[pa.Int64Array, pa.StringArray]:
        """Return the times, and for each row what is wrong with its own: BAD, FUTURE, or null for nothing.

        A row that is held until its time has come is not wrong.  Raises what ``times`` raises.
        """
        # Where not one usable time was ever seen, these are bad, whatever the unit.
        assigner = _WithoutTimes(self.assigner) if self.unit_is_unknown else self.assigner
        times, bad = event_times(batch, assigner, self.bad)
        horizon_ms = self.horizon_ms(now_ms)
        ahead = times.fill_null(horizon_ms).to_numpy() > horizon_ms
        if self.future == "hold" or not ahead.any():
            return times, _faults(bad, np.zeros_like(bad))
        if self.future == "fail":
            self.refuse_future(*_place(batch, row := int(ahead.argmax())), times[row].as_py())
        return pc.if_else(ahead, pa.scalar(None, pa.int64()), times), _faults(bad, ahead)

    def refuse_future(self, split_id: str, offset: int, time_ms: int) -> NoReturn:
        """Raise the error for a record from the future."""
        raise CorruptDataError(
            f"{split_id}: the record at offset {offset} has an event time of {time_ms} ms, further ahead of the clock "
            "than maxFutureSkew; set futureEventTime to ignore or hold"
        )


def _faults(bad: npt.NDArray[np.bool_], ahead: npt.NDArray[np.bool_]) -> pa.StringArray:
    if not (bad.any() or ahead.any()):
        return pa.nulls(len(bad), pa.string())
    return pc.if_else(bad, BAD, pc.if_else(ahead, FUTURE, pa.scalar(None, pa.string())))


class _WithoutTimes:
    """Stands for an assigner that found no time; errors show the name of that one."""

    def __init__(self, assigner: TimestampAssigner) -> None:
        self.__qualname__ = repr(assigner)

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        return pa.nulls(batch.num_rows, pa.int64())


def _place(batch: pa.RecordBatch, row: int) -> tuple[str, int]:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}", offset
