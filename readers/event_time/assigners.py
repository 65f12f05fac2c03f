"""Takes the event times of Kafka records from their timestamps, headers or values.

A timestamp assigner (Flink: TimestampAssigner) takes a whole batch and returns its times.  A value that it cannot read
is null, and Kafka's "no timestamp" is -1.  The policy decides about both, so an assigner never fails because of data.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
from typing_extensions import Self

from tidegate.errors import BadRecordError, did_you_mean
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import are_null, int64_values, integers
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.event_time.units import TimeUnit, assigned_times, detect_unit, value_times
from tidegate.readers.registry.client import RegistryConfig, last_header, without_id
from tidegate.readers.registry.columns import Form, fields_at

TimestampAssigner: TypeAlias = Callable[[pa.RecordBatch], npt.NDArray[np.int64] | pa.Int64Array]
"""Returns the event time of every row of a batch, in milliseconds since the epoch.

Called once per batch, on executors and, for peeks, on the driver, so it must be picklable.  The batch has the columns
of Spark's Kafka source.  A null (pyarrow only) means that the time is missing or unparsable; a negative time is bad,
too.  The same row must always get the same time.
"""

_ARRAY_INDEX = re.compile("0|[1-9][0-9]{0,9}")


class UnitAssigner(ABC):
    """The base of assigners for times in headers and values.

    The unit is declared, or the driver detects it once, and it is fixed then.  A batch that was planned before that is
    read in the unit of its first usable value.
    """

    __slots__ = ()
    unit: TimeUnit | None

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in get_args(TimeUnit):
            raise ValueError(
                f"expected a unit of s, ms, us, ns or iso8601{did_you_mean(self.unit, get_args(TimeUnit))}"
            )

    def detect(self, batch: pa.RecordBatch) -> TimeUnit | None:
        """Return the unit of the first usable value in ``batch``, see detect_unit."""
        return detect_unit(self._values(batch))

    def times_by_own_units(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times, each by the unit that the value itself shows; see detect_unit."""
        values = [*self._values(batch)]
        return pa.array([None if value is None else _time_by_own_unit(value) for value in values], pa.int64())

    def with_unit(self, unit: TimeUnit) -> Self:
        """Return this assigner with its unit fixed."""
        return replace(self, unit=unit)  # type: ignore[type-var]  # each assigner is a dataclass

    @abstractmethod
    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in ms, rounded down; null without a time, or if the unit of a value is not known."""

    @abstractmethod
    def _values(self, batch: pa.RecordBatch) -> Iterable[object]:
        """Return the values that hold the event times, row by row."""


def _check_pointer(pointer: str) -> None:
    """Raise ValueError unless a text is a JSON pointer (RFC 6901)."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("expected a JSON pointer that begins with '/', such as json:/order/created")
    if re.search("~(?![01])", pointer):
        raise ValueError("expected a JSON pointer in which '~' is written ~0 and, within a name, '/' is written ~1")


def _tokens_of(pointer: str) -> list[str]:
    """Return the names in a JSON pointer, from the top down."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _time_by_own_unit(value: object) -> int | None:
    unit = detect_unit([value])
    if unit is None:
        return None
    return value_times([value], unit)[0].as_py()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class RegistryTimestamp(UnitAssigner):
    """A field of record values in Confluent's wire format, in which each value names its own schema.

    form: the form of the values; values in another form have no time.
    pointer: the pointer to the field, such as "/order/created" or "/events/0/at" (RFC 6901).
    unit: the unit of numbers, or "iso8601" for texts; None: not known yet.  A field with a type of times, such as
        Avro's timestamp-millis and date, or google.protobuf.Timestamp, needs none.

    Raises ValueError for a malformed pointer or an unknown unit.  In addition to the errors of all assigners, a call
    raises ConnectorError if the registry refuses, and DeadlineError if it does not answer.
    """

    form: Form
    pointer: str
    registry: RegistryConfig
    unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        _check_pointer(self.pointer)
        if not self.pointer:
            raise ValueError(f"expected a pointer to a field, such as {self.form}:/order/created")
        UnitAssigner.__post_init__(self)  # super() does not work in the class that dataclass(slots=True) creates

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the field is missing or not a time.

        A field with a type of times needs no unit.
        """
        times, are_missing = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, np.bool_)
        for rows, values in self._fields(batch):
            part = _column_times(values, self.unit)
            times[rows], are_missing[rows] = int64_values(part), are_null(part)
        return integers(times, pa.int64(), are_missing)

    def times_by_own_units(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times: by the type of a field, or by the unit that the value itself shows."""
        return pc.coalesce(self(batch), UnitAssigner.times_by_own_units(self, batch))

    def _values(self, batch: pa.RecordBatch) -> Iterable[object]:
        found: list[object] = [None] * batch.num_rows
        for rows, values in self._fields(batch):
            for row, value in zip(rows, _plain(values), strict=True):
                found[row] = value
        return found

    def _fields(self, batch: pa.RecordBatch) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        return fields_at(self.registry, self.form, _tokens_of(self.pointer), batch.column("value"), headers)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _column_times(values: pa.Array, unit: TimeUnit | None) -> pa.Int64Array:
    """Return the times of a column of times, numbers or texts; a type of times has its own unit."""
    if pa.types.is_string(values.type):
        return assigned_times(values, unit)
    if not _is_time(values.type) and (unit is None or unit == "iso8601"):
        return pc.if_else(pc.equal(values, 0), 0, pa.scalar(None, pa.int64()))
    return times_ms(values, None if _is_time(values.type) else unit)


def _plain(values: pa.Array) -> list[object]:
    """Return values from which a unit is detected: a time counts as a number of milliseconds."""
    plain: list[object] = (times_ms(values, None) if _is_time(values.type) else values).to_pylist()
    return plain


class ReadsColumn(Protocol):
    """Returns a column of records, whose values may be decoded already; picklable."""

    @property
    def needs_headers(self) -> bool:
        """Whether records that are not decoded yet need the column ``headers``."""

    def __call__(self, batch: pa.RecordBatch, /) -> pa.Array:
        """Return the column.  Errors of the data pass."""


@dataclass(frozen=True, slots=True)
class ColumnTimestamp(UnitAssigner):
    """A column of the decoded value or key, such as ``value.at``.

    column: its name, for errors.
    read: reads it, of a type of times, or of numbers or texts.
    unit: the unit of numbers, or "iso8601" for texts; None: not known yet.  A type of times needs none.
    """

    column: str
    read: ReadsColumn
    unit: TimeUnit | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the column is null or not a time."""
        return _column_times(self.read(batch), self.unit)

    def _values(self, batch: pa.RecordBatch) -> Iterable[object]:
        # A record behind the first usable one may be bad, and perhaps the query never reads it.
        start, count = 0, 1
        while start < batch.num_rows:
            try:
                values = self.read(batch.slice(start, count))
            except BadRecordError:
                if count == 1:
                    return
                count = 1
                continue
            yield from _plain(values)
            start, count = start + count, 8 * count


def names_a_column(option: str) -> bool:
    """Return whether the option ``eventTime`` names a column of the decoded value or key."""
    return option.partition(".")[0] in {"key", "value"}


@dataclass(frozen=True, slots=True)
class RecordTimestamp:
    """The record's own timestamp: the time of its creation or of its append, as the topic is configured."""

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the column ``timestamp`` in milliseconds, rounded down; null where it is null."""
        timestamps = batch.column("timestamp")
        # NumPy rounds down.  Arrow's division rounds towards zero, and its floor overflows at the limits of int64.
        return integers(int64_values(timestamps) // 1000, pa.int64(), are_null(timestamps))


@dataclass(frozen=True, slots=True)
class HeaderTimestamp(UnitAssigner):
    """A header of the record, as UTF-8 text.

    name: the header's key, case-sensitive; if the record has several, the last one counts (Kafka: Headers.lastHeader).
    unit: the unit of its number, or "iso8601".

    Raises ValueError for an empty name or an unknown unit.
    """

    name: str
    unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("expected the name of a header, such as header:created-at")
        UnitAssigner.__post_init__(self)  # super() does not work in the class that dataclass(slots=True) creates

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the header is missing or not a time."""
        return assigned_times(self._texts(batch), self.unit)

    def _values(self, batch: pa.RecordBatch) -> Iterator[object]:
        return (text and text.decode(errors="replace") for text in self._texts(batch).to_pylist())

    def _texts(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        return last_header(batch.column("headers"), self.name)


@dataclass(frozen=True, slots=True)
class JsonTimestamp(UnitAssigner):
    """A field of the record's value, which is JSON in UTF-8, perhaps behind the id of its JSON Schema.

    pointer: the pointer to the field (RFC 6901), such as "/order/created" or "/events/0/at"; "" is the whole value.
    unit: the unit of its number, or "iso8601".

    JSON is read strictly.  A value with NaN, or with a number beyond the range of doubles, is unparsable as a whole.

    Raises ValueError for a malformed pointer or an unknown unit.
    """

    pointer: str
    unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        _check_pointer(self.pointer)
        UnitAssigner.__post_init__(self)  # see HeaderTimestamp

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the field is missing or not a time."""
        return value_times([*self._values(batch)], self.unit)

    def _values(self, batch: pa.RecordBatch) -> Iterator[object]:
        tokens = _tokens_of(self.pointer)
        return (_field(value, tokens) for value in batch.column("value").to_pylist())


def _field(value: bytes | None, tokens: Sequence[str]) -> object:
    try:
        node = orjson.loads(without_id(value))  # type: ignore[arg-type]  # None also raises JSONDecodeError
    except orjson.JSONDecodeError:
        return None
    for token in tokens:
        if isinstance(node, dict):
            node = node.get(token)
        elif isinstance(node, list) and _ARRAY_INDEX.fullmatch(token) and int(token) < len(node):
            node = node[int(token)]
        else:
            return None
    return node


def assigner_of(
    option: str, unit: TimeUnit | None, registry: RegistryConfig | None = None
) -> RecordTimestamp | UnitAssigner:
    """Return the assigner that the option ``eventTime`` names.

    option: "timestamp", "header:NAME", or "json:", "avro:" or "protobuf:" and a JSON pointer into the value.
    unit: the declared unit; None: the driver detects it.  "timestamp" takes no unit.

    Raises ValueError, one sentence, for any other text.
    """
    kind, colon, named = option.partition(":")
    if option == "timestamp":
        if unit is not None:
            raise ValueError(f"the record's timestamp has a unit of its own, so {unit!r} cannot be declared for it")
        return RecordTimestamp()
    if colon and kind == "header":
        return HeaderTimestamp(named, unit)
    if colon and kind == "json":
        return JsonTimestamp(named, unit)
    if colon and kind in get_args(Form):
        if registry is None:
            raise ValueError(f"{kind}: needs a schema registry; set schema.registry.url")
        return RegistryTimestamp(cast("Form", kind), named, registry, unit)
    nearest = did_you_mean(kind, ["timestamp", "header:", "json:", "avro:", "protobuf:"])
    raise ValueError(
        "expected timestamp, header:NAME or json:/pointer/into/value, or avro: or protobuf: with such a pointer, or a "
        "column of a typed topic, such as value.at"
        f"{nearest}"
    )
