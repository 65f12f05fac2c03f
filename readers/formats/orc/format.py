"""ORC objects, cut at stripes.  Columns, also that of the event times, are read by ranges of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, compress
from typing import ClassVar

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import orc

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import spark_schema
from tidegate.readers.formats.group_format import GroupedObject, GroupFormat
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.orc.tail import OrcTail, StripeFooter, tail_of
from tidegate.readers.formats.orc.values import OrcValues, spark_type, zone_shift_s
from tidegate.readers.formats.row_groups import HELD_BYTES, RowGroup, merged_ranges
from tidegate.readers.formats.signatures import SIGNATURE_BYTES, other_format
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES, S3Object

BATCH_ROWS = 4096  # decoded at once; a stripe bounds their size, unless it has large texts in a dictionary


class OrcObject(GroupedObject):
    """An object whose tail was read, and with it all of its bytes if ``is_whole``."""

    def __init__(self, size: int, fetch: Fetch, file: orc.ORCFile, *, is_whole: bool) -> None:
        self.tail = tail_of(file)
        self.fields, self.groups = list(file.schema), self.tail.stripes
        self._size, self._fetch, self._is_whole = size, fetch, is_whole

    def spark_schema(self) -> pa.Schema:
        """See TypedObject.spark_schema."""
        return spark_schema(pa.schema([pa.field(field.name, spark_type(field)) for field in self.fields]))

    def decoded(self, groups: Sequence[RowGroup], places: Sequence[int]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """See GroupedObject.decoded; the columns are in Spark's types."""
        tail, fields = self.tail, [self.fields[place] for place in places]
        columns = tail.columns_below(places)
        for place, field in zip(places, fields, strict=True):
            if tail.holds_far_times(tail.columns_below([place])):
                raise CorruptDataError(f"the column {field.name!r} has times beyond the years 1678 to 2261")
        with closing(ObjectFile(self._size, self._fetch, SMALL_BYTES)) as source:
            if not self._is_whole:
                source.hold(merged_ranges([tail.footer_range(stripe) for stripe in groups]))
            footers = [tail.footer(_ranges_of(source), stripe) for stripe in groups]
            ranges = [footer.ranges(columns) for footer in footers]
            held = [sum(end - start for start, end in stripe_ranges) <= HELD_BYTES for stripe_ranges in ranges]
            for index, footer in enumerate(footers):
                if not self._is_whole:
                    source.hold(chain.from_iterable(compress(ranges[index : index + 2], held[index : index + 2])))
                values = OrcValues(zone_shift_s(footer.zone), tail.is_julian)
                for batch in _batches(source, tail, footer, places):
                    arrays = [values.converted(*pair) for pair in zip(batch.columns, fields, strict=True)]
                    yield footer.stripe, pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


@dataclass(frozen=True)
class OrcFormat(GroupFormat):
    """Objects of Apache ORC; groups are stripes.  Timestamps have to be between the years 1678 and 2261."""

    named: ClassVar[str] = "ORC"

    @contextmanager
    def opened(self, obj: S3Object, *, whole: bool = False) -> Iterator[OrcObject]:
        """See TypedFormat.opened."""
        failures: list[Exception] = []
        start = 0 if whole else max(0, obj.size - TAIL_BYTES)
        data = self.store.fetch(obj, start, obj.size)

        def fetch(begin: int, end: int) -> bytes:
            try:
                return data[begin - start : end - start] if begin >= start else self.store.fetch(obj, begin, end)
            except Exception as problem:
                failures.append(problem)
                raise

        try:
            with closing(ObjectFile(obj.size, fetch, SMALL_BYTES)) as source:
                opened = OrcObject(obj.size, fetch, _orc_file(source), is_whole=start == 0)
            yield opened
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            if failures:  # the ORC library keeps only the text of an error of ``fetch``
                raise failures[0] from None
            raise


def _orc_file(source: ObjectFile) -> orc.ORCFile:
    try:
        return orc.ORCFile(pa.PythonFile(source, mode="r"))
    except (pa.ArrowException, OSError):
        source.seek(0)
        if other := other_format(source.read(SIGNATURE_BYTES)):
            raise CorruptDataError(f"it does not end as ORC does{other}") from None
        raise


def _batches(
    source: ObjectFile, tail: OrcTail, footer: StripeFooter, places: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stripe as Arrow decodes them, from a file with this stripe alone."""
    fetch, added = _ranges_of(source), tail.stripe_alone(footer)

    def fetch_alone(start: int, end: int) -> bytes:
        own = fetch(start, min(end, footer.end)) if start < footer.end else b""
        return own + added[max(start - footer.end, 0) : max(end - footer.end, 0)]

    with closing(ObjectFile(footer.end + len(added), fetch_alone, SMALL_BYTES)) as alone:
        fragment = pads.OrcFileFormat().make_fragment(pa.PythonFile(alone, mode="r"))
        yield from fragment.to_batches(
            columns=[str(place) for place in places],
            batch_size=BATCH_ROWS,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )


def _ranges_of(source: ObjectFile) -> Fetch:
    def fetch(start: int, end: int) -> bytes:
        source.seek(start)
        return source.read(end - start)

    return fetch
