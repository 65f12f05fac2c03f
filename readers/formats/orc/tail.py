"""Reads the tail of an ORC object: its stripes, its types, and the statistics of its times.

Numbers of fields are those of orc_proto.proto (ORC specification v1: file tail, stripe footer).

Existing libraries do not suffice.  From pyarrow 26 we get the number of stripes, but neither their statistics nor
their positions.  With pyorc 0.12 we get both, but rows are Python objects.  Neither writes the tail that Arrow needs to
decode a single stripe, with other names and another zone (``stripe_alone``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
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
from tidegate.readers.formats.signatures import SIGNATURE_BYTES, other_format
from tidegate.readers.s3.store import TAIL_BYTES

__all__ = ["ColumnStatistics", "OrcTail", "OrcType", "StripeFooter", "read_tail"]

BLOCK_BYTES = 256 << 10  # the size of a block if the tail has none
_INDEX_STREAMS = (6, 7, 8)  # the row index and Bloom filters
_PS_FOOTER, _PS_COMPRESSION, _PS_BLOCK, _PS_METADATA, _PS_MAGIC = 1, 2, 3, 5, 8000
_STRIPES, _TYPES, _ROWS, _STATISTICS, _ENCRYPTION, _CALENDAR = 3, 4, 6, 7, 10, 11
_OFFSET, _INDEX, _DATA, _FOOTER, _STRIPE_ROWS = 1, 2, 3, 4, 5
_NAMES = 3  # the names of a struct's fields
_ZONE = 3
_TIMESTAMP_KINDS = (9, 18)
_FARTHEST_MS = 9_223_286_400_000  # the range of nanoseconds without its last day, since a zone may be added
_INTEGERS, _STRINGS, _DATES, _BINARIES, _TIMESTAMPS = 2, 3, 7, 8, 9
_LEAST, _GREATEST = 3, 4  # the least and the greatest timestamp, in UTC
_FINER = (5, 6)  # the nanoseconds of the same two within their ms, plus one


class OrcType(NamedTuple):
    """A type of the tree; its index in the list of all types is the column that streams and statistics name.

    kind: a number of orc_proto.Type.Kind.
    children: the columns of the nested types.
    """

    kind: int
    children: tuple[int, ...]


class ColumnStatistics(NamedTuple):
    """The statistics of a column in one stripe.

    values: the number of values that are not null.
    bounds: the minimum and the maximum; None: unknown.  Dates are in days since the epoch.  Timestamps are in ms since
        the epoch, rounded down; those without a zone are wall-clock times read as UTC.
    """

    values: int
    bounds: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The footer of a stripe.

    end: the end of the stripe's values, which is the first byte of this footer.
    zone: the writer's zone; timestamps without a zone are in it.
    fields: all fields of the footer.
    """

    stripe: RowGroup
    end: int
    zone: str
    fields: Message

    def ranges(self, columns: set[int]) -> list[tuple[int, int]]:
        """Return the ranges of bytes of some columns' values, in order, end exclusive; near ranges are merged."""
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

    start: the offset of ``data`` in the object.
    data: the bytes from there to the end of the object; they contain at least all that follows the stripes.
    stripes: the stripes with rows, in order; their numbers count all stripes.
    types: the tree of types; the first is the row.
    """

    start: int
    data: bytes
    stripes: list[RowGroup]
    types: list[OrcType]
    _postscript: Message
    _footer: Message
    _metadata: bytes

    def columns_below(self, tops: Iterable[int]) -> set[int]:
        """Return the columns of the row, of the fields at some places, and of all types nested in these fields."""
        columns = {0}
        waiting = [self.types[0].children[top] for top in tops]
        while waiting:
            column = waiting.pop()
            columns.add(column)
            waiting += self.types[column].children
        return columns

    def column_at(self, path: Sequence[int]) -> int:
        """Return the column at a path, which has the index of a field for each level."""
        column = 0
        for place in path:
            column = self.types[column].children[place]
        return column

    def row_bytes(self, columns: Iterable[int]) -> int:
        """Estimate the size of a decoded row of some columns in bytes, by the statistics of the whole object."""
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
        """Return whether a timestamp is out of the range of nanoseconds, by the statistics of the whole object."""
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
        """Return the range of bytes of a stripe's footer, end exclusive."""
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

        The columns are named "0", "1" and so on, because Arrow takes a dot in a name for a path.  The writer's zone is
        set to UTC.  So timestamps without a zone are off by a constant, and an hour that a clock shows twice stays
        unambiguous (see zone_shift_s).
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
    """Return the tail of an object of ``size`` bytes, by one or two requests; ``whole``: with the rest of the object.

    Raises CorruptDataError for an object without ORC's tail; errors of ``fetch`` pass.
    """
    start = 0 if whole else max(0, size - TAIL_BYTES)
    data = fetch(start, size)
    postscript: Message = []
    with suppress(CorruptDataError):
        postscript = message(data[-1 - data[-1] : -1])
    if bytes_in(postscript, _PS_MAGIC) != b"ORC":
        head = data if start == 0 else fetch(0, SIGNATURE_BYTES)
        raise CorruptDataError(f"it does not end as ORC does{other_format(head)}")
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
            raise CorruptDataError(f"its footer names stripes beyond their {end} bytes")
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
    """Return by how many ms the least and the greatest timestamp are too late.

    Before 1970, some writers, such as Arrow's, round up, and the parts of a ms are negative then.  If a writer does not
    store these parts, its least timestamp may be rounded up.
    """
    parts = dict(timestamps)
    if not parts.keys() & set(_FINER):
        return int((signed_in(timestamps, _LEAST) or 0) <= 0), 0
    # A negative number plus one is 0, or a varint of at least 1 << 63.
    least, greatest = (int(not 0 < number_in(timestamps, field) < 1 << 63 and field in parts) for field in _FINER)
    return least, greatest
