"""The tail of an ORC object: its stripes, its types and its statistics.

Numbers of fields are those of orc_proto.proto (ORC specification v1: file tail, stripe footer).

pyarrow 26 reads the tail, and shows it only as a message.  Its own values would differ from Spark's: it does not tell
the zone in which the writer's timestamps are, the calendar of its dates, or that a timestamp is out of its range.  It
decodes a stripe as a whole, of any size, unless the stripe is alone in its object: ``stripe_alone`` makes it so.  With
pyorc 0.12, rows are Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pyarrow import orc

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

__all__ = ["OrcTail", "OrcType", "StripeFooter", "tail_of"]

BLOCK_BYTES = 256 << 10  # the size of a block if the tail has none
_INDEX_STREAMS = (6, 7, 8)  # the row index and Bloom filters
_POSTSCRIPT, _FILE_FOOTER = 1, 2
_PS_FOOTER, _PS_COMPRESSION, _PS_BLOCK, _PS_METADATA, _PS_MAGIC = 1, 2, 3, 5, 8000
_STRIPES, _TYPES, _ROWS, _STATISTICS, _ENCRYPTION, _CALENDAR = 3, 4, 6, 7, 10, 11
_OFFSET, _INDEX, _DATA, _FOOTER, _STRIPE_ROWS = 1, 2, 3, 4, 5
_NAMES = 3  # the names of a struct's fields
_ZONE = 3
_TIMESTAMP_KINDS = (9, 18)
_FARTHEST_MS = 9_223_286_400_000  # the range of nanoseconds without its last day, since a zone may be added
_STRINGS, _BINARIES, _TIMESTAMPS = 3, 8, 9
_LEAST, _GREATEST = 3, 4  # the least and the greatest timestamp, in UTC


class OrcType(NamedTuple):
    """An orc_proto.Type.Kind with its nested types; its index in the list of all types is the column."""

    kind: int
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The footer of a stripe.

    end: the end of the stripe's values, which is the first byte of this footer.
    zone: the writer's zone; timestamps without a zone are in it.
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

    stripes: the stripes with rows, in order; their numbers count all stripes.
    types: the tree of types; the first is the row.
    """

    stripes: list[RowGroup]
    types: list[OrcType]
    _postscript: Message
    _footer: Message

    def columns_below(self, tops: Iterable[int]) -> set[int]:
        """Return the columns of the row, of the fields at some places, and of all types nested in these fields."""
        columns = {0}
        waiting = [self.types[0].children[top] for top in tops]
        while waiting:
            column = waiting.pop()
            columns.add(column)
            waiting += self.types[column].children
        return columns

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
            message(bytes_in(message(statistics[column]), _TIMESTAMPS))
            for column in columns
            if self.types[column].kind in _TIMESTAMP_KINDS and column < len(statistics)
        ]
        bounds = [signed_in(times, bound) for times in timestamps for bound in (_LEAST, _GREATEST)]
        return any(bound is not None and abs(bound) > _FARTHEST_MS for bound in bounds)

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
        postscript = self._postscript
        return Blocks(number_in(postscript, _PS_COMPRESSION), number_in(postscript, _PS_BLOCK) or BLOCK_BYTES)


def tail_of(file: orc.ORCFile) -> OrcTail:
    """Return the tail of an object.  Raises CorruptDataError if it is encrypted, or contradicts itself."""
    tail = message(file.reader.serialized_file_tail())
    postscript, fields = message(bytes_in(tail, _POSTSCRIPT)), message(bytes_in(tail, _FILE_FOOTER))
    if parts_of(fields, _ENCRYPTION):
        raise CorruptDataError("some of its columns are encrypted")
    types = [OrcType(number_in(kind, 1), tuple(numbers_in(kind, 2))) for kind in map(message, parts_of(fields, _TYPES))]
    if not types or any(not at < child < len(types) for at, kind in enumerate(types) for child in kind.children):
        raise CorruptDataError("its types are no tree")
    behind = 1 + file.file_postscript_length + number_in(postscript, _PS_FOOTER) + number_in(postscript, _PS_METADATA)
    return OrcTail(_stripes(fields, file.file_length - behind), types, postscript, fields)


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


def _without(fields: Message, *numbers: int) -> Message:
    return [field for field in fields if field[0] not in numbers]
