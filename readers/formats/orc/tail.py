"""Reads the tail of an ORC object: its stripes, its types, and the statistics of its times.

Numbers of fields are those of orc_proto.proto (ORC specification v1: file tail, stripe footer).

We tried pyarrow 26, which shows the number of stripes, but neither their statistics nor their positions.  pyorc 0.12
shows both, but writes no tail, and its rows are Python objects.  Arrow needs a tail to decode a stripe alone, with
names and a zone of our choice (``stripe_alone``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.errors import CorruptDataError
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.orc.messages import (
    Blocks,
    Message,
    bytes_in,
    encoded,
    message,
    number_in,
    numbers_in,
    parts_of,
    signed_in,
)
from tidegate.readers.formats.row_groups import RowGroup, merged_ranges
from tidegate.readers.s3.store import TAIL_BYTES

__all__ = ["ColumnStatistics", "OrcTail", "OrcType", "StripeFooter", "read_tail"]

BLOCK_BYTES = 256 << 10  # of a block, if the tail does not tell it
_INDEX_STREAMS = (6, 7, 8)  # row index and Bloom filters
_PS_FOOTER, _PS_COMPRESSION, _PS_BLOCK, _PS_METADATA, _PS_MAGIC = 1, 2, 3, 5, 8000
_STRIPES, _TYPES, _ROWS, _STATISTICS, _ENCRYPTION, _CALENDAR = 3, 4, 6, 7, 10, 11
_OFFSET, _INDEX, _DATA, _FOOTER, _STRIPE_ROWS = 1, 2, 3, 4, 5
_NAMES = 3  # of a struct's fields
_ZONE = 3
_TIMESTAMP_KINDS = (9, 18)
_FARTHEST_MS = 9_223_286_400_000  # a day within the range of nanoseconds, since a zone may be added
_INTEGERS, _STRINGS, _DATES, _BINARIES, _TIMESTAMPS = 2, 3, 7, 8, 9
_LEAST, _GREATEST = 3, 4  # of timestamps, in UTC
_FINER = (5, 6)  # of the least and the greatest timestamp: nanoseconds within the ms, and one more


class OrcType(NamedTuple):
    """A type of the tree; its place in the list of all types is the column that streams and statistics name.

    kind: of orc_proto.Type.Kind.  children: columns.
    """

    kind: int
    children: tuple[int, ...]


class ColumnStatistics(NamedTuple):
    """The statistics of a column in one stripe.

    values: the number of values that are not null.
    bounds: the minimum and the maximum; None: unknown.  Dates are in days, timestamps in ms, rounded down, and those
        without a zone are wall clocks in UTC.
    """

    values: int
    bounds: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The footer of a stripe.

    end: of the stripe's values: the first byte of this footer.
    zone: of the writer; timestamps without a zone are in it.
    """

    stripe: RowGroup
    end: int
    zone: str
    fields: Message

    def ranges(self, columns: set[int]) -> list[tuple[int, int]]:
        """Return the bytes of the values of some columns, in order, end exclusive; near ones are merged."""
        ranges = []
        at = self.stripe.start
        for raw in parts_of(self.fields, 1):
            stream = message(raw)
            length = number_in(stream, 3)
            if number_in(stream, 2) in columns and number_in(stream, 1) not in _INDEX_STREAMS:
                ranges.append((at, at + length))
            at += length
        return merged_ranges(ranges)


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The end of an object.

    start: the first byte of ``data``, which holds at least everything after the stripes.
    stripes: those with rows, in order; their numbers count all stripes.
    """

    start: int
    data: bytes
    stripes: list[RowGroup]
    types: list[OrcType]
    _postscript: Message
    _footer: Message
    _metadata: bytes

    def columns_below(self, tops: Iterable[int]) -> set[int]:
        """Return the columns of the row and of some of its fields, given by their places, with all nested ones."""
        columns = {0}
        waiting = [self.types[0].children[top] for top in tops]
        while waiting:
            column = waiting.pop()
            columns.add(column)
            waiting += self.types[column].children
        return columns

    def column_at(self, path: Sequence[int]) -> int:
        """Return the column at nested places of fields."""
        column = 0
        for place in path:
            column = self.types[column].children[place]
        return column

    def row_bytes(self, columns: Iterable[int]) -> int:
        """Estimate the bytes of a decoded row of some columns, by the statistics of the whole object."""
        statistics = parts_of(self._footer, _STATISTICS)
        rows = max(sum(stripe.rows for stripe in self.stripes), 1)
        total = 0
        for column in columns:
            column_statistics = message(statistics[column]) if column < len(statistics) else []
            texts = signed_in(message(bytes_in(column_statistics, _STRINGS)), 3) or signed_in(
                message(bytes_in(column_statistics, _BINARIES)), 1
            )
            total += 8 * max(number_in(column_statistics, 1), rows) + (texts or 0)
        return max(total // rows, 1)

    def holds_far_times(self, columns: Iterable[int]) -> bool:
        """Return whether some timestamp is out of the range of nanoseconds, by the statistics of the whole object."""
        statistics = parts_of(self._footer, _STATISTICS)
        timestamps = [
            _statistics(message(statistics[column])).bounds
            for column in columns
            if self.types[column].kind in _TIMESTAMP_KINDS and column < len(statistics)
        ]
        return any(
            bounds is not None and (bounds[0] < -_FARTHEST_MS or bounds[1] > _FARTHEST_MS) for bounds in timestamps
        )

    def statistics(self, column: int) -> dict[int, ColumnStatistics]:
        """Return the statistics of a column by the number of the stripe; stripes without statistics are left out."""
        by_stripe = {}
        for number, stripe in enumerate(parts_of(message(self._blocks.decompressed(self._metadata)), 1)):
            columns = parts_of(message(stripe), 1)
            if column < len(columns):
                by_stripe[number] = _statistics(message(columns[column]))
        return by_stripe

    def footer_range(self, stripe: RowGroup) -> tuple[int, int]:
        """Return the bytes of the footer of a stripe, end exclusive."""
        stripe_fields = message(parts_of(self._footer, _STRIPES)[stripe.number])
        start = stripe.start + number_in(stripe_fields, _INDEX) + number_in(stripe_fields, _DATA)
        return start, start + number_in(stripe_fields, _FOOTER)

    def footer(self, fetch: Fetch, stripe: RowGroup) -> StripeFooter:
        """Return the footer of a stripe, by a request of its own."""
        start, end = self.footer_range(stripe)
        fields = message(self._blocks.decompressed(fetch(start, end)))
        return StripeFooter(stripe, start, bytes_in(fields, _ZONE).decode(errors="replace") or "UTC", fields)

    def stripe_alone(self, footer: StripeFooter) -> bytes:
        """Return the bytes that follow the values of a stripe in an object with this stripe alone.

        Columns are named by their places, "0", "1" and so on, because the library takes a dot in a name for a path.
        The writer's zone is set to UTC.  So timestamps without a zone are off by a constant, and an hour that a clock
        shows twice stays unambiguous (see zone_shift_s).
        """
        blocks = self._blocks
        stripe_footer = blocks.stored(encoded([*_without(footer.fields, _ZONE), (_ZONE, b"UTC")]))
        stripe_fields = message(parts_of(self._footer, _STRIPES)[footer.stripe.number])
        stripe = encoded([*_without(stripe_fields, _FOOTER), (_FOOTER, len(stripe_footer))])
        rows = footer.stripe.rows
        row, *others = parts_of(self._footer, _TYPES)
        names = [(_NAMES, str(place).encode()) for place in range(len(self.types[0].children))]
        types = [encoded([*_without(message(row), _NAMES), *names]), *others]
        kept = _without(self._footer, _STRIPES, _TYPES, _ROWS, _STATISTICS)
        tail = blocks.stored(encoded([*kept, (_STRIPES, stripe), *((_TYPES, kind) for kind in types), (_ROWS, rows)]))
        rest = _without(self._postscript, _PS_FOOTER, _PS_METADATA, _PS_MAGIC)
        postscript = encoded([(_PS_FOOTER, len(tail)), *rest, (_PS_METADATA, 0), (_PS_MAGIC, b"ORC")])
        return stripe_footer + tail + postscript + bytes([len(postscript)])

    @property
    def is_julian(self) -> bool:
        """Whether old dates are in the Julian calendar."""
        return number_in(self._footer, _CALENDAR) == 1

    @property
    def _blocks(self) -> Blocks:
        return _blocks(self._postscript)


def read_tail(fetch: Fetch, size: int, *, whole: bool = False) -> OrcTail:
    """Return the tail of an object of ``size`` bytes, by one request, or two; ``whole``: with all the rest.

    Raises CorruptDataError for an object without ORC's tail; errors of ``fetch`` pass.
    """
    start = 0 if whole else max(0, size - TAIL_BYTES)
    data = fetch(start, size)
    postscript = message(data[-1 - data[-1] : -1])
    if bytes_in(postscript, _PS_MAGIC) != b"ORC":
        raise CorruptDataError("it does not end as ORC does")
    footer, metadata = number_in(postscript, _PS_FOOTER), number_in(postscript, _PS_METADATA)
    behind = 1 + data[-1]
    if behind + footer + metadata > size:
        raise CorruptDataError(f"its tail would have {behind + footer + metadata} bytes, and it has {size}")
    if behind + footer + metadata > len(data):
        data = fetch(size - behind - footer - metadata, start) + data
        start = size - len(data)
    ends = len(data) - behind
    fields = message(_blocks(postscript).decompressed(data[ends - footer : ends]))
    if parts_of(fields, _ENCRYPTION):
        raise CorruptDataError("some of its columns are encrypted")
    types = [OrcType(number_in(kind, 1), tuple(numbers_in(kind, 2))) for kind in map(message, parts_of(fields, _TYPES))]
    if not types or any(not at < child < len(types) for at, kind in enumerate(types) for child in kind.children):
        raise CorruptDataError("its types are no tree")
    stripes = _stripes(fields, size - behind - footer - metadata)
    return OrcTail(start, data, stripes, types, postscript, fields, data[ends - footer - metadata : ends - footer])


def _stripes(footer: Message, end: int) -> list[RowGroup]:
    stripes = []
    at = 0
    for number, raw in enumerate(parts_of(footer, _STRIPES)):
        fields = message(raw)
        start, rows = number_in(fields, _OFFSET), number_in(fields, _STRIPE_ROWS)
        stop = start + number_in(fields, _INDEX) + number_in(fields, _DATA) + number_in(fields, _FOOTER)
        if start < at or stop > end:
            raise CorruptDataError(f"its footer tells of stripes beyond their {end} bytes")
        at = stop
        if rows:
            stripes.append(RowGroup(number, start, rows))
    return stripes


def _blocks(postscript: Message) -> Blocks:
    return Blocks(number_in(postscript, _PS_COMPRESSION), number_in(postscript, _PS_BLOCK) or BLOCK_BYTES)


def _without(fields: Message, *numbers: int) -> Message:
    return [field for field in fields if field[0] not in numbers]


def _statistics(statistics: Message) -> ColumnStatistics:
    values = number_in(statistics, 1)
    for field, low, high in ((_INTEGERS, 1, 2), (_DATES, 1, 2), (_TIMESTAMPS, _LEAST, _GREATEST)):
        inner = message(bytes_in(statistics, field))
        bounds = signed_in(inner, low), signed_in(inner, high)
        if bounds[0] is not None and bounds[1] is not None and bounds[0] <= bounds[1]:
            late = _rounded_up(inner) if field == _TIMESTAMPS else (0, 0)
            return ColumnStatistics(values, (bounds[0] - late[0], bounds[1] - late[1]))
    return ColumnStatistics(values, None)


def _rounded_up(timestamps: Message) -> tuple[int, int]:
    """Return by how many ms the least and the greatest of some timestamps are too late.

    Before 1970 some writers, such as Arrow's, round up, and parts of a ms are then negative.  If a writer does not
    store these parts, its least time may be rounded up.
    """
    parts = dict(timestamps)
    if not parts.keys() & set(_FINER):
        return int((signed_in(timestamps, _LEAST) or 0) <= 0), 0
    # One more than a negative number is 0, or as a varint at least 1 << 63.
    least, greatest = (int(not 0 < number_in(timestamps, field) < 1 << 63 and field in parts) for field in _FINER)
    return least, greatest
