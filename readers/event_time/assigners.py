"""Takes the event times of Kafka records from their timestamps, headers or values.

A timestamp assigner (Flink: TimestampAssigner) takes a whole batch and returns its times.  A value that it cannot read
is null, and Kafka's "no timestamp" is -1.  The policy decides about both, so an assigner never fails because of data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from tidegate.errors import did_you_mean
from tidegate.readers.arrow.numpy_arrays import are_null, int64_values, integers
from tidegate.readers.event_time.registered import RegistryTimestamp
from tidegate.readers.event_time.unit_assigner import UnitAssigner, check_pointer, tokens_of
from tidegate.readers.event_time.units import TimeUnit, assigned_times, value_times
from tidegate.readers.registry.client import RegistryConfig
from tidegate.readers.registry.columns import Form
from tidegate.readers.registry.wire import last_header, without_id

TimestampAssigner: TypeAlias = Callable[[pa.RecordBatch], npt.NDArray[np.int64] | pa.Int64Array]
"""Returns the event time of every row of a batch, in milliseconds since the epoch.

Called once per batch, on executors and, for peeks, on the driver, so it must be picklable.  The batch has the columns
of Spark's Kafka source.  A null (pyarrow only) means that the time is missing or unparsable; a negative time is bad,
too.  The same row must always get the same time.
"""

_ARRAY_INDEX = re.compile("0|[1-9][0-9]{0,9}")


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
        check_pointer(self.pointer)
        UnitAssigner.__post_init__(self)  # see HeaderTimestamp

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the times in milliseconds, rounded down; null where the field is missing or not a time."""
        return value_times([*self._values(batch)], self.unit)

    def _values(self, batch: pa.RecordBatch) -> Iterator[object]:
        tokens = tokens_of(self.pointer)
        return (_field(value, tokens) for value in batch.column("value").to_pylist())


def _field(value: bytes | None, tokens: Sequence[str]) -> object:
    try:
        node = orjson.loads(without_id(value))  # type: ignore[arg-type]  # None raises JSONDecodeError, too
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
    kind, colon, rest = option.partition(":")
    if option == "timestamp":
        if unit is not None:
            raise ValueError(f"the record's timestamp has a unit of its own, so {unit!r} cannot be declared for it")
        return RecordTimestamp()
    if colon and kind == "header":
        return HeaderTimestamp(rest, unit)
    if colon and kind == "json":
        return JsonTimestamp(rest, unit)
    if colon and kind in get_args(Form):
        if registry is None:
            raise ValueError(f"{kind}: needs a schema registry; set schema.registry.url")
        return RegistryTimestamp(cast("Form", kind), rest, registry, unit)
    nearest = did_you_mean(kind, ["timestamp", "header:", "json:", "avro:", "protobuf:"])
    raise ValueError(
        "expected timestamp, header:NAME or json:/pointer/into/value, or avro: or protobuf: with such a pointer"
        f"{nearest}"
    )
