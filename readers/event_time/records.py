"""Judges the event times of Kafka records batch by batch, and names a record that is refused.

The planner and the executors decide by the same code, so the planner's peeks skip the records that executors deliver
without an event time, and both refuse the same records.

Records may also contain watermarks (Flink: punctuated watermarks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.alignment.generators import NO_EVENT_TIME, GeneratorSupplier, WatermarkGenerator, WatermarkOutput
from tidegate.alignment.splits import Horizon
from tidegate.errors import ContractError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import integers
from tidegate.readers.event_time.assigners import (
    ColumnTimestamp,
    HeaderTimestamp,
    JsonTimestamp,
    RecordTimestamp,
    RegistryTimestamp,
    TimestampAssigner,
    UnitAssigner,
    assigner_of,
)
from tidegate.readers.event_time.policy import BAD, FUTURE, NO_TIME, EventTimePolicy, Times, int64_times
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.registry.client import RegistryConfig


class JudgedRecords(NamedTuple):
    """The decision about the records of a batch.

    times: event times in ms since the epoch; null where planning leaves the record out.
    faults: the faults of the records' own times: BAD, FUTURE, or null for none.
    set_aside: the rows that the query does not get, and the reason of each, as a clause after "the record".
    """

    times: pa.Int64Array
    faults: pa.StringArray
    set_aside: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Gives records their event times.

    assigner: takes the times from the records.
    policy: decides about times that are bad or in the future; the stand-in is the record's own timestamp.
    """

    assigner: TimestampAssigner = field(default_factory=RecordTimestamp)
    policy: EventTimePolicy = field(default_factory=EventTimePolicy)

    @property
    def name(self) -> str:
        """The option that names the origin of the times; for a function, its name."""
        match self.assigner:
            case RecordTimestamp():
                return "eventTime=timestamp"
            case HeaderTimestamp(name):
                return f"eventTime=header:{name}"
            case JsonTimestamp(pointer):
                return f"eventTime=json:{pointer}"
            case RegistryTimestamp(form, pointer):
                return f"eventTime={form}:{pointer}"
            case ColumnTimestamp(column):
                return f"eventTime={column}"
        # The repr of an unknown callable, such as a functools.partial, may show a secret.
        return getattr(self.assigner, "__qualname__", type(self.assigner).__qualname__)

    @property
    def by_record_timestamp(self) -> bool:
        """Whether the times are the records' timestamps, so that Kafka's time index has them."""
        return isinstance(self.assigner, RecordTimestamp)

    @property
    def by_column(self) -> bool:
        """Whether the times are a column of the decoded value or key."""
        return isinstance(self.assigner, ColumnTimestamp)

    @property
    def needs_headers(self) -> bool:
        """Whether the assigner needs the column ``headers``."""
        if isinstance(self.assigner, ColumnTimestamp):
            return self.assigner.read.needs_headers
        return not isinstance(self.assigner, RecordTimestamp | JsonTimestamp)

    @property
    def unit_is_unknown(self) -> bool:
        """Whether the unit of the times is still to be detected."""
        return isinstance(self.assigner, UnitAssigner) and self.assigner.unit is None

    def with_unit(self, unit: TimeUnit | None) -> RecordTimes:
        """Return a copy with the unit that was detected, if the assigner takes one."""
        if unit is None or not isinstance(self.assigner, UnitAssigner):
            return self
        return replace(self, assigner=self.assigner.with_unit(unit))

    def detect(self, batch: pa.RecordBatch) -> TimeUnit | None:
        """Return the unit of the first usable time in a batch, or None without one and if the unit is known."""
        if isinstance(self.assigner, UnitAssigner) and self.unit_is_unknown:
            return self.assigner.detect(batch)
        return None

    def judge(self, batch: pa.RecordBatch, horizon: Horizon) -> JudgedRecords:
        """Return the times, their faults, and the records that are set aside.

        Raises CorruptDataError for the first record that ends the query; the error shows nothing of the record.  Raises
        ContractError unless the assigner returns an int64 for each row.  Errors of the assigner itself pass.
        """
        assigned, own = self._assigned(batch)
        # Most batches need no stand-ins, and they take as long to decode as the times themselves.
        if self.policy.accepts_all(own, horizon):
            return JudgedRecords(assigned, pa.nulls(batch.num_rows, pa.string()))
        stand_in = self._stand_in(batch, own)
        judged = self.policy.judge(own, stand_in, horizon)
        if judged.refused is not None:
            row = judged.refused.row
            raise judged.refused.error(_place(batch, row), self._origin + self._cause(batch.slice(row, 1)))
        return JudgedRecords(
            integers(judged.times, pa.int64(), judged.times == NO_TIME),
            pc.if_else(judged.bad, BAD, pc.if_else(judged.future, FUTURE, pa.scalar(None, pa.string()))),
            {
                row: self.policy.refusal(row, own, stand_in).reason(self._origin)
                for row in np.flatnonzero(judged.set_aside).tolist()
            },
        )

    def check_timestamp(self, split_id: str, offset: int, timestamp_ms: int, horizon: Horizon) -> None:
        """Raise CorruptDataError if a record whose event time is its own timestamp ends the query."""
        self.policy.time_of_row(timestamp_ms, timestamp_ms, horizon, _name_of(split_id, offset), self._origin)

    def _assigned(self, batch: pa.RecordBatch) -> tuple[pa.Int64Array, Times]:
        """Return the records' own times, as an array of Arrow and of NumPy."""
        assigned = _checked(self.assigner(batch), batch.num_rows, self.name)
        if assigned.null_count and (unit := self.detect(batch)) is not None:
            # The planner found no usable time, or the batch was planned with another ``eventTime``.
            assigned = pc.coalesce(assigned, self.with_unit(unit).assigner(batch))
        return assigned, int64_times(assigned)

    def _stand_in(self, batch: pa.RecordBatch, own: Times) -> Times | None:
        if self.by_record_timestamp:
            return own
        return None if self.policy.bad == "ignore" else int64_times(RecordTimestamp()(batch))

    def _cause(self, record: pa.RecordBatch) -> str:
        """Return a clause that names the unit of a record's time if it is not the one in use."""
        if not isinstance(self.assigner, UnitAssigner) or self.assigner.unit is None:
            return ""
        unit = self.assigner.detect(record)
        if unit is None or unit == self.assigner.unit:
            return ""
        # The unit may have been detected: then the user has not set the option.
        return f", read in the unit {self.assigner.unit}, but the value looks like {unit} (eventTimeUnit)"

    @property
    def _origin(self) -> str:
        return f" from {self.name}"


def _checked(assigned: object, rows: int, name: str) -> pa.Int64Array:
    wanted = f"expected an int64 array of NumPy or pyarrow with one time for each of {rows} rows"
    complaint = f"the timestamp assigner {name} returned"
    if isinstance(assigned, np.ndarray):
        if assigned.dtype != np.int64 or assigned.ndim != 1:
            raise ContractError(f"{complaint} an array of {assigned.dtype} with {assigned.ndim} dimensions; {wanted}")
        assigned = integers(assigned, pa.int64())
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


Marks: TypeAlias = Callable[[pa.RecordBatch], npt.NDArray[np.bool_] | pa.BooleanArray | pa.Int64Array]
"""Decides which rows of a batch are marks, which contain a watermark.

Returns a value for each row.  True marks a row whose event time is the watermark, if it has one.  An integer is the
watermark itself, in ms since the epoch; null if the row is not a mark.
"""


@dataclass(frozen=True, slots=True)
class PunctuatedWatermarks(WatermarkGenerator):
    """Emits only the watermarks that rows contain.  It needs no state."""

    is_divisible: ClassVar[bool] = True
    wants_untimed_rows: ClassVar[bool] = True
    marks: Marks

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Emit the greatest watermark.  Raises ContractError unless ``marks`` returns a value for each row."""
        marks = self.marks(batch)
        marked = pa.array(marks) if isinstance(marks, np.ndarray) else marks
        if not isinstance(marked, pa.BooleanArray | pa.Int64Array) or len(marked) != batch.num_rows:
            raise ContractError(
                f"the marks of watermarks are {type(marks).__qualname__}; expected a Boolean or an int64 for each of "
                f"{batch.num_rows} rows"
            )
        watermarks = marked
        if pa.types.is_boolean(marked.type):
            watermarks = pa.array(event_times, mask=event_times == NO_EVENT_TIME).filter(marked)
        greatest_ms = pc.max(watermarks).as_py()
        if greatest_ms is not None:
            output.emit_watermark(greatest_ms)


def punctuated_by(marks: str | Marks, registry: RegistryConfig | None = None) -> GeneratorSupplier:
    """Return a supplier of generators that emit the watermarks that rows contain.

    marks: the place of the watermark: ``header:NAME``, or ``json:``, ``avro:`` or ``protobuf:`` with a pointer.  Or a
        function, see Marks.

    Raises ValueError for any other text.
    """
    marks_in = marks_of(marks, registry) if isinstance(marks, str) else marks
    return lambda: PunctuatedWatermarks(marks_in)


def marks_of(text: str, registry: RegistryConfig | None = None) -> Marks:
    """Return the function that reads the watermarks at the place that a text names; see ``punctuated_by``.

    Raises ValueError, one sentence, for any other text.
    """
    assigner = assigner_of(text, None, registry)
    if isinstance(assigner, RecordTimestamp):
        expected = "header:NAME, json:/pointer/into/value, or avro: or protobuf: with such a pointer"
        raise ValueError(f"expected {expected}")  # noqa: TRY004 - the text is wrong, not its type
    return assigner.times_by_own_units
