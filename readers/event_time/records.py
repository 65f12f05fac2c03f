"""Judges the event times of Kafka records, by the batch, and names the record that is refused.

One decision for both sides: the planner's peeks skip the records that executors deliver without an event time, and both
refuse the same records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ContractError
from tidegate.readers.event_time.assigners import (
    HeaderTimestamp,
    JsonTimestamp,
    RecordTimestamp,
    TimestampAssigner,
    TimeUnit,
)
from tidegate.readers.event_time.policy import BAD, FUTURE, NO_TIME, EventTimePolicy, JudgedTimes, Times, int64_times
from tidegate.readers.event_time.registered import RegistryTimestamp
from tidegate.readers.event_time.unit_assigner import UnitAssigner

__all__ = ["JudgedRecords", "RecordTimes"]


class JudgedRecords(NamedTuple):
    """The decision about the records of a batch.

    times: in ms since the epoch; null where planning leaves the record out.
    faults: of the records' own times: BAD, FUTURE, or null for none.
    set_aside: the rows that are no records of the query, each with the reason as a clause after "the record".
    """

    times: pa.Int64Array
    faults: pa.StringArray
    set_aside: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Takes event times from records.

    assigner: takes them from the records.
    policy: decides about those that are bad or in the future; the record's own timestamp stands in.
    """

    assigner: TimestampAssigner = field(default_factory=RecordTimestamp)
    policy: EventTimePolicy = field(default_factory=EventTimePolicy)

    @property
    def name(self) -> str:
        """How the options name the origin of the times; of a function, its own name."""
        match self.assigner:
            case RecordTimestamp():
                return "eventTime=timestamp"
            case HeaderTimestamp(name):
                return f"eventTime=header:{name}"
            case JsonTimestamp(pointer):
                return f"eventTime=json:{pointer}"
            case RegistryTimestamp(form, pointer):
                return f"eventTime={form}:{pointer}"
        # The repr of an unknown callable, such as a functools.partial, may show a secret.
        return getattr(self.assigner, "__qualname__", type(self.assigner).__qualname__)

    @property
    def by_record_timestamp(self) -> bool:
        """Whether Kafka's own time index knows the times."""
        return isinstance(self.assigner, RecordTimestamp)

    @property
    def needs_headers(self) -> bool:
        """Whether the assigner must see the column ``headers``."""
        return not isinstance(self.assigner, RecordTimestamp | JsonTimestamp | RegistryTimestamp)

    @property
    def unit_is_unknown(self) -> bool:
        """Whether the unit of the times is still to be detected."""
        return isinstance(self.assigner, UnitAssigner) and self.assigner.unit is None

    def with_unit(self, unit: TimeUnit | None) -> RecordTimes:
        """Return these with the unit that was detected, where one is wanted."""
        if unit is None or not isinstance(self.assigner, UnitAssigner):
            return self
        return replace(self, assigner=self.assigner.with_unit(unit))

    def detect(self, batch: pa.RecordBatch) -> TimeUnit | None:
        """Return the unit of the first usable time in a batch; None: there is none, or none is wanted."""
        if isinstance(self.assigner, UnitAssigner) and self.unit_is_unknown:
            return self.assigner.detect(batch)
        return None

    def times(self, batch: pa.RecordBatch, now_ms: int) -> pa.Int64Array:
        """Return the event times of a batch in milliseconds; null where planning leaves the row out.

        Raises what ``judge`` raises.
        """
        assigned, own = self._assigned(batch)
        if self.policy.accepts_all(own, now_ms):
            return assigned
        return _counted(self._judged(batch, own, self._stand_in(batch, own), now_ms))

    def judge(self, batch: pa.RecordBatch, now_ms: int) -> JudgedRecords:
        """Return the times, their faults, and the records that are set aside.

        Raises CorruptDataError for the first record that ends the query; it never shows the record.  Raises
        ContractError if the assigner returns anything but an int64 per row; what the assigner itself raises passes.
        """
        assigned, own = self._assigned(batch)
        # Decoding the timestamps that stand in costs as much as decoding the times themselves.
        if self.policy.accepts_all(own, now_ms):
            return JudgedRecords(assigned, pa.nulls(batch.num_rows, pa.string()))
        stand_in = self._stand_in(batch, own)
        judged = self._judged(batch, own, stand_in, now_ms)
        return JudgedRecords(
            _counted(judged),
            pc.if_else(judged.bad, BAD, pc.if_else(judged.future, FUTURE, pa.scalar(None, pa.string()))),
            {
                row: self.policy.refusal(row, own, stand_in).reason(self._origin)
                for row in np.flatnonzero(judged.set_aside).tolist()
            },
        )

    def check_timestamp(self, split_id: str, offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Raise CorruptDataError if a record whose event time is its own timestamp ends the query."""
        self.policy.time_of_row(timestamp_ms, timestamp_ms, now_ms, _name_of(split_id, offset), self._origin)

    def _assigned(self, batch: pa.RecordBatch) -> tuple[pa.Int64Array, Times]:
        """Return the records' own times, and the same as NumPy's."""
        # Without one usable time so far, these are bad in any unit.
        rows = batch.num_rows
        assigned = (
            pa.nulls(rows, pa.int64()) if self.unit_is_unknown else _checked(self.assigner(batch), rows, self.name)
        )
        return assigned, int64_times(assigned)

    def _judged(self, batch: pa.RecordBatch, own: Times, stand_in: Times | None, now_ms: int) -> JudgedTimes:
        judged = self.policy.judge(own, stand_in, now_ms)
        if judged.refused is not None:
            raise judged.refused.error(_place(batch, judged.refused.row), self._origin)
        return judged

    def _stand_in(self, batch: pa.RecordBatch, own: Times) -> Times | None:
        if self.by_record_timestamp:
            return own
        return None if self.policy.bad == "ignore" else int64_times(RecordTimestamp()(batch))

    @property
    def _origin(self) -> str:
        return f" from {self.name}"


def _counted(judged: JudgedTimes) -> pa.Int64Array:
    return pa.array(judged.times, mask=judged.times == NO_TIME)


def _checked(assigned: object, rows: int, name: str) -> pa.Int64Array:
    wanted = f"expected an int64 array of NumPy or pyarrow with one time for each of {rows} rows"
    complaint = f"the timestamp assigner {name} returned"
    if isinstance(assigned, np.ndarray):
        if assigned.dtype != np.int64 or assigned.ndim != 1:
            raise ContractError(f"{complaint} an array of {assigned.dtype} with {assigned.ndim} dimensions; {wanted}")
        assigned = pa.array(assigned)
    if not isinstance(assigned, pa.Array):
        raise ContractError(f"{complaint} a {type(assigned).__qualname__}; {wanted}")
    if assigned.type != pa.int64():
        raise ContractError(f"{complaint} an array of {assigned.type}; {wanted}")
    if len(assigned) != rows:
        raise ContractError(f"{complaint} {len(assigned)} times; {wanted}")
    return assigned


def _place(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return _name_of(f"{topic}-{partition}", offset)


def _name_of(split_id: str, offset: int) -> str:
    return f"{split_id}: the record at offset {offset}"
