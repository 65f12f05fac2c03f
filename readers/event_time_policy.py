"""Which event time a row counts with, and what becomes of rows without a usable one.

One decision for both sides: the planner's peeks leave out what the executors deliver without an
event time, and both refuse the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptDataError
from tidegate.readers.event_time import (
    BadEventTime,
    HeaderTimestamp,
    JsonTimestamp,
    RecordTimestamp,
    TimestampAssigner,
    TimeUnit,
    event_times,
)

__all__ = ["EventTimePolicy", "FutureEventTime"]

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
        if self.unit_is_unknown:
            # Not one usable time was ever seen: whatever the unit, these are bad.
            return event_times(batch, _without_times, self.bad)
        times = event_times(batch, self.assigner, self.bad)
        if self.future == "hold" or not batch.num_rows:
            return times
        horizon_ms = self.horizon_ms(now_ms)
        ahead = times.fill_null(horizon_ms).to_numpy() > horizon_ms
        if not ahead.any():
            return times
        if self.future == "fail":
            self.refuse_future(*_place(batch, row := int(ahead.argmax())), times[row].as_py())
        return pc.if_else(ahead, pa.scalar(None, pa.int64()), times)

    def refuse_future(self, split_id: str, offset: int, time_ms: int) -> NoReturn:
        """Raise the error for a record from the future."""
        raise CorruptDataError(
            f"{split_id}: the record at offset {offset} has an event time of {time_ms} ms, further ahead of the clock "
            "than maxFutureSkew; set futureEventTime to ignore or hold"
        )


def _without_times(batch: pa.RecordBatch) -> pa.Int64Array:
    return pa.nulls(batch.num_rows, pa.int64())


def _place(batch: pa.RecordBatch, row: int) -> tuple[str, int]:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}", offset
