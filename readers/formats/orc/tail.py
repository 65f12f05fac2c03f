"""What an ORC object says of itself: its stripes, its types, the times that statistics bound.

Numbers of fields are those of orc_proto.proto (ORC specification v1: file tail, stripe footer).

Tried: pyarrow 26 counts the stripes and their statistics, and shows neither these nor where a stripe lies.  pyorc 0.12
shows both, but writes no tail.  Arrow needs one to decode a stripe alone, with names and a zone of our choice
(``stripe_alone``), and rows of pyorc are Python objects.
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

BLOCK_BYTES = 256 << 10  # of a block, where the tail does not say it
_INDEX_STREAMS = (6, 7, 8)  # row index and Bloom filters
_PS_FOOTER, _PS_COMPRESSION, _PS_BLOCK, _PS_METADATA, _PS_MAGIC = 1, 2, 3, 5, 8000
_STRIPES, _TYPES, _ROWS, _STATISTICS, _ENCRYPTION, _CALENDAR = 3, 4, 6, 7, 10, 11
_OFFSET, _INDEX, _DATA, _FOOTER, _STRIPE_ROWS = 1, 2, 3, 4, 5
_NAMES = 3  # of a struct's fields
_ZONE = 3
_TIMESTAMP_KINDS = (9, 18)
_FARTHEST_MS = 9_223_286_400_000  # a day from what nanoseconds can tell, since a zone may be added
_INTEGERS, _STRINGS, _DATES, _BINARIES, _TIMESTAMPS = 2, 3, 7, 8, 9
_LEAST, _GREATEST = 3, 4  # of timestamps, in UTC
_FINER = (5, 6)  # of the least and the greatest timestamp: nanoseconds within the ms, and one more


class OrcType(NamedTuple):
    """A type of the tree; its place in the list of all is the column that streams and statistics name.

    kind: of orc_proto.Type.Kind.  children: columns.
    """

    kind: int
    children: tuple[int, ...]


class ColumnStatistics(NamedTuple):
    """What is known of the values of a column in one stripe.

    values: how many are not null.
    bounds: the least and the greatest one: of integers, of dates in days, of timestamps in ms, rounded down, where
        those without a zone are wall clocks in UTC; None: it does not tell.
    """

    values: int
    bounds: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """What a stripe says of itself.

    end: the first byte of this footer.
    zone: of the writer, in whose time timestamps without a zone are.
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

    start: the first byte of ``data``, which holds at least all that stands behind the stripes.
    stripes: those with rows, in order; their numbers count all.
    """

    start: int
    data: bytes
    stripes: list[RowGroup]
    types: list[OrcType]
    _postscript: Message
    _footer: Message
    _metadata: bytes

    def columns_below(self, tops: Iterable[int]) -> set[int]:
        """Return the columns of some fields of a row, given by their places, with all within; and that of the row."""
        columns = {0}
        waiting = [self.types[0].children[top] for top in tops]
        while waiting:
            column = waiting.pop()
            columns.add(column)
            waiting += self.types[column].children
        return columns

    def column_at(self, path: Sequence[int]) -> int:
        """Return the column that places of fields lead to, one within the other."""
        column = 0
        for place in path:
            column = self.types[column].children[place]
        return column

    def row_bytes(self, columns: Iterable[int]) -> int:
        """Return about how many bytes a decoded row of some columns takes, by the statistics of the whole object."""
        statistics = parts_of(self._footer, _STATISTICS)
        rows = max(sum(stripe.rows for stripe in self.stripes), 1)
        total = 0
        for column in columns:
            known = message(statistics[column]) if column < len(statistics) else []
            texts = signed_in(message(bytes_in(known, _STRINGS)), 3) or signed_in(
                message(bytes_in(known, _BINARIES)), 1
            )
            total += 8 * max(number_in(known, 1), rows) + (texts or 0)
        return max(total // rows, 1)

    def holds_far_times(self, columns: Iterable[int]) -> bool:
        """Tell whether a timestamp of some columns is none in nanoseconds, by the statistics of the whole object."""
        statistics = parts_of(self._footer, _STATISTICS)
        known = [
            _statistics(message(statistics[column])).bounds
            for column in columns
            if self.types[column].kind in _TIMESTAMP_KINDS and column < len(statistics)
        ]
        return any(bounds is not None and (bounds[0] < -_FARTHEST_MS or bounds[1] > _FARTHEST_MS) for bounds in known)

    def statistics(self, column: int) -> dict[int, ColumnStatistics]:
        """Return what is known of a column by the number of the stripe; of stripes that it is not known of, nothing."""
        found = {}
        for number, stripe in enumerate(parts_of(message(self._blocks.decompressed(self._metadata)), 1)):
            columns = parts_of(message(stripe), 1)
            if column < len(columns):
                found[number] = _statistics(message(columns[column]))
        return found

    def footer_range(self, stripe: RowGroup) -> tuple[int, int]:
        """Return the bytes of the footer of a stripe, end exclusive."""
        known = message(parts_of(self._footer, _STRIPES)[stripe.number])
        start = stripe.start + number_in(known, _INDEX) + number_in(known, _DATA)
        return start, start + number_in(known, _FOOTER)

    def footer(self, fetch: Fetch, stripe: RowGroup) -> StripeFooter:
        """Return the footer of a stripe, by a request of its own."""
        start, end = self.footer_range(stripe)
        fields = message(self._blocks.decompressed(fetch(start, end)))
        return StripeFooter(stripe, start, bytes_in(fields, _ZONE).decode(errors="replace") or "UTC", fields)

    def stripe_alone(self, footer: StripeFooter) -> bytes:
        """Return what has to stand behind the values of a stripe, so that it is the only one of an object.

        Columns are called by their places, "0", "1" and so on, since the library takes a dot in a name for
        a path.  The writer's zone is said to be UTC: so timestamps without a zone are off by a constant, and
        which of two hours was meant that a clock shows twice is not lost (see zone_shift_s).
        """
        blocks = self._blocks
        stripe_footer = blocks.stored(encoded([*_without(footer.fields, _ZONE), (_ZONE, b"UTC")]))
        known = message(parts_of(self._footer, _STRIPES)[footer.stripe.number])
        stripe = encoded([*_without(known, _FOOTER), (_FOOTER, len(stripe_footer))])
        rows = footer.stripe.rows
        row, *others = parts_of(self._footer, _TYPES)
        names = [(_NAMES, str(place).encode()) for place in range(len(self.types[0].children))]
        types = [encoded([*_without(message(row), _NAMES), *names]), *others]
        kept = _without(self._footer, _STRIPES, _TYPES, _ROWS, _STATISTICS)
        tail = blocks.stored(encoded([*kept, (_STRIPES, stripe), *((_TYPES, each) for each in types), (_ROWS, rows)]))
        rest = _without(self._postscript, _PS_FOOTER, _PS_METADATA, _PS_MAGIC)
        postscript = encoded([(_PS_FOOTER, len(tail)), *rest, (_PS_METADATA, 0), (_PS_MAGIC, b"ORC")])
        return stripe_footer + tail + postscript + bytes([len(postscript)])

    @property
    def is_julian(self) -> bool:
        """Whether the writer says that old dates are in the Julian calendar."""
        return number_in(self._footer, _CALENDAR) == 1

    @property
    def _blocks(self) -> Blocks:
        return _blocks(self._postscript)


def read_tail(fetch: Fetch, size: int, *, whole: bool = False) -> OrcTail:
    """Return the tail of an object of ``size`` bytes, by one request, or two; ``whole``: and all the rest.

    Raises CorruptDataError for what does not end as ORC does; what ``fetch`` raises passes.
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
    types = [OrcType(number_in(each, 1), tuple(numbers_in(each, 2))) for each in map(message, parts_of(fields, _TYPES))]
    if not types or any(not at < child < len(types) for at, each in enumerate(types) for child in each.children):
        raise CorruptDataError("its types are no tree")
    stripes = _stripes(fields, size - behind - footer - metadata)
    return OrcTail(start, data, stripes, types, postscript, fields, data[ends - footer - metadata : ends - footer])


def _stripes(footer: Message, end: int) -> list[RowGroup]:
    found = []
    at = 0
    for number, raw in enumerate(parts_of(footer, _STRIPES)):
        known = message(raw)
        start, rows = number_in(known, _OFFSET), number_in(known, _STRIPE_ROWS)
        stop = start + number_in(known, _INDEX) + number_in(known, _DATA) + number_in(known, _FOOTER)
        if start < at or stop > end:
            raise CorruptDataError(f"its footer tells of stripes beyond their {end} bytes")
        at = stop
        if rows:
            found.append(RowGroup(number, start, rows))
    return found


def _blocks(postscript: Message) -> Blocks:
    return Blocks(number_in(postscript, _PS_COMPRESSION), number_in(postscript, _PS_BLOCK) or BLOCK_BYTES)


def _without(fields: Message, *numbers: int) -> Message:
    return [each for each in fields if each[0] not in numbers]


def _statistics(known: Message) -> ColumnStatistics:
    values = number_in(known, 1)
    for field, low, high in ((_INTEGERS, 1, 2), (_DATES, 1, 2), (_TIMESTAMPS, _LEAST, _GREATEST)):
        inner = message(bytes_in(known, field))
        bounds = signed_in(inner, low), signed_in(inner, high)
        if bounds[0] is not None and bounds[1] is not None and bounds[0] <= bounds[1]:
            late = _rounded_up(inner) if field == _TIMESTAMPS else (0, 0)
            return ColumnStatistics(values, (bounds[0] - late[0], bounds[1] - late[1]))
    return ColumnStatistics(values, None)


def _rounded_up(timestamps: Message) -> tuple[int, int]:
    """Return by how many ms the least and the greatest of some timestamps are told too late.

    Before 1970 some writers, Arrow's among them, round up, and what is finer than a ms is negative then.
    Of one that does not tell it, the least time may be rounded up.
    """
    told = dict(timestamps)
    if not told.keys() & set(_FINER):
        return int((signed_in(timestamps, _LEAST) or 0) <= 0), 0
    # One more than a negative number is 0, or as a varint at least 1 << 63.
    least, greatest = (int(not 0 < number_in(timestamps, field) < 1 << 63 and field in told) for field in _FINER)
    return least, greatest
