"""The tail of an ORC object: its stripes, its types and its statistics.

pyarrow 26 reads the tail, and shows it only as a message.  Its own values would differ from Spark's: it does not tell
the zone in which the writer's timestamps are, the calendar of its dates, or that a timestamp is out of its range.  It
decodes a stripe as a whole, of any size, unless the stripe is alone in its object: ``stripe_alone`` makes it so.  With
pyorc 0.12, rows are Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from pyarrow import orc

from tidegate.errors import CorruptDataError
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.orc.messages import Blocks, message
from tidegate.readers.formats.row_groups import RowGroup, merged_ranges

BLOCK_BYTES = 256 << 10  # the size of a block if the tail has none
_INDEX_STREAMS = (6, 7, 8)  # the row index and Bloom filters
_FARTHEST_MS = 9_223_286_400_000  # the range of nanoseconds without its last day, since a zone may be added


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The footer of a stripe.

    end: the end of the stripe's values, which is the first byte of this footer.
    """

    stripe: RowGroup
    end: int
    content: Any

    @property
    def zone(self) -> str:
        """The writer's zone; timestamps without a zone are in it."""
        return self.content.writer_timezone.decode(errors="replace") or "UTC"

    def ranges(self, columns: set[int]) -> list[tuple[int, int]]:
        """Return the ranges of bytes of some columns' values, in order, end exclusive; near ranges are merged."""
        ranges = []
        at = self.stripe.start
        for stream in self.content.streams:
            if stream.column in columns and stream.kind not in _INDEX_STREAMS:
                ranges.append((at, at + stream.length))
            at += stream.length
        return merged_ranges(ranges)


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The end of an object.

    stripes: the stripes with rows, in order; their numbers count all stripes.
    schema: the columns of the row.
    """

    stripes: list[RowGroup]
    schema: pa.Schema
    _postscript: Any
    _footer: Any

    def columns_below(self, tops: Iterable[int]) -> set[int]:
        """Return the columns of the row, of the fields at some places, and of all types nested in these fields."""
        ends = [*accumulate((_columns(field.type) for field in self.schema), initial=1)]
        return {0, *chain.from_iterable(range(ends[top], ends[top + 1]) for top in tops)}

    def holds_far_times(self, columns: Iterable[int]) -> bool:
        """Return whether a timestamp is out of the range of nanoseconds, by the statistics of the whole object."""
        statistics = self._footer.statistics
        timestamps = [statistics[column].timestamps for column in columns if column < len(statistics)]
        return any(max(abs(times.minimum_utc), abs(times.maximum_utc)) > _FARTHEST_MS for times in timestamps)

    def footer_range(self, stripe: RowGroup) -> tuple[int, int]:
        """Return the range of bytes of a stripe's footer, end exclusive."""
        stored = self._footer.stripes[stripe.number]
        start = stripe.start + stored.index_length + stored.data_length
        return start, start + stored.footer_length

    def footer(self, fetch: Fetch, stripe: RowGroup) -> StripeFooter:
        """Return the footer of a stripe, by a request of its own."""
        start, end = self.footer_range(stripe)
        return StripeFooter(stripe, start, message("StripeFooter", self._blocks.decompressed(fetch(start, end))))

    def stripe_alone(self, footer: StripeFooter) -> bytes:
        """Return the bytes that follow the values of a stripe in an object with this stripe alone.

        The columns are named "0", "1" and so on, because Arrow takes a dot in a name for a path.  The writer's zone is
        set to UTC.  So timestamps without a zone are off by a constant, and an hour that a clock shows twice stays
        unambiguous (see zone_shift_s).
        """
        stripe_footer = message("StripeFooter")
        stripe_footer.CopyFrom(footer.content)
        stripe_footer.writer_timezone = b"UTC"
        end = self._blocks.stored(stripe_footer.SerializeToString())
        alone = message("Footer")
        alone.CopyFrom(self._footer)
        alone.ClearField("statistics")
        del alone.stripes[:]
        alone.stripes.add().CopyFrom(self._footer.stripes[footer.stripe.number])
        alone.stripes[0].footer_length = len(end)
        alone.rows = footer.stripe.rows
        alone.types[0].field_names[:] = [str(place).encode() for place in range(len(self.schema))]
        tail = self._blocks.stored(alone.SerializeToString())
        postscript = message("PostScript")
        postscript.CopyFrom(self._postscript)
        postscript.footer_length, postscript.metadata_length = len(tail), 0
        postscript.ClearField("magic")
        last = postscript.SerializeToString() + message("PostScript", magic=b"ORC").SerializeToString()
        return bytes(end + tail + last + bytes([len(last)]))

    @property
    def is_julian(self) -> bool:
        """Whether old dates are in the Julian calendar."""
        return bool(self._footer.calendar == 1)

    @property
    def _blocks(self) -> Blocks:
        return Blocks(self._postscript.compression, self._postscript.compression_block_size or BLOCK_BYTES)


def tail_of(file: orc.ORCFile) -> OrcTail:
    """Return the tail of an object.  Raises CorruptDataError if it is encrypted, or contradicts itself."""
    tail = message("FileTail", file.reader.serialized_file_tail())
    postscript, footer = tail.postscript, tail.footer
    if footer.encryption:
        raise CorruptDataError("some of its columns are encrypted")
    behind = 1 + file.file_postscript_length + postscript.footer_length + postscript.metadata_length
    return OrcTail(_stripes(footer, file.file_length - behind), file.schema, postscript, footer)


def _columns(kind: pa.DataType) -> int:
    """Return the number of columns of a type: ORC numbers each before those nested in it."""
    inner = (
        [kind.key_type, kind.item_type]
        if pa.types.is_map(kind)
        else [kind.field(at).type for at in range(kind.num_fields)]
    )
    return 1 + sum(map(_columns, inner))


def _stripes(footer: Any, end: int) -> list[RowGroup]:
    stripes = []
    at = 0
    for number, stored in enumerate(footer.stripes):
        stop = stored.offset + stored.index_length + stored.data_length + stored.footer_length
        if stored.offset < at or stop > end:
            raise CorruptDataError(f"its footer names stripes beyond their {end} bytes")
        at = stop
        if stored.rows:
            stripes.append(RowGroup(number, stored.offset, stored.rows))
    return stripes
