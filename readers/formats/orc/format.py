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
from tidegate.readers.arrow.conform import position_of, spark_schema
from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.orc.tail import OrcTail, StripeFooter, tail_of
from tidegate.readers.formats.orc.values import OrcValues, spark_type, zone_shift_s
from tidegate.readers.formats.row_groups import (
    BATCH_BYTES,
    HELD_BYTES,
    MOST_ROWS,
    RowGroup,
    merged_ranges,
    surveys_of,
    within_bounds,
)
from tidegate.readers.formats.signatures import SIGNATURE_BYTES, other_format
from tidegate.readers.formats.typed_format import TypedFormat
from tidegate.readers.formats.typed_records import fitted
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, TimeRange, WriteFile
from tidegate.readers.s3.store import SMALL_BYTES, TAIL_BYTES


@dataclass(frozen=True, slots=True)
class _Opened:
    """An object whose tail was read, and with it all of its bytes if ``is_whole``."""

    obj: S3Object
    tail: OrcTail
    fields: list[pa.Field]
    fetch: Fetch
    is_whole: bool


@dataclass(frozen=True)
class OrcFormat(TypedFormat):
    """Objects of Apache ORC.

    A chunk has successive stripes with at most ``chunk_bytes`` together; a larger stripe is a chunk of its own.

    An object of up to SMALL_BYTES is read by one request.  From a larger one, only the requested columns are fetched.
    Memory holds at most HELD_BYTES of a stripe and as much of the next one, and at most MOST_ROWS decoded rows.
    Timestamps have to be between the years 1678 and 2261.
    """

    named: ClassVar[str] = "ORC"

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey.  The column of the times is read."""
        with self._opened(obj) as opened:
            stripes = opened.tail.stripes
            times = [(None, 0)] * len(stripes) if column is None else self._times(opened, column)
            return surveys_of(stripes, times, obj.size, self.chunk_bytes)

    def read(self, chunk: Chunk, schema: pa.Schema, write: WriteFile | None = None) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read.  A batch holds at most BATCH_BYTES, unless a single row is larger."""
        with (
            self._opened(chunk.source, whole=chunk.size <= SMALL_BYTES) as opened,
            self.bad_records.of_chunk(self.store.address(chunk.key), chunk, schema, write, record="row") as records,
        ):
            top = [field.name for field in opened.fields]
            named = [position_of(field.name, top) for field in records.data_schema]
            places = range(len(top)) if records.rescues else {place for place in named if place is not None}
            mine = [stripe for stripe in opened.tail.stripes if chunk.start <= stripe.start < chunk.end]
            for stripe, batch in self._decoded(opened, mine, sorted(places)):
                yield from within_bounds(fitted(records, batch, stripe.start))

    def schema_of(self, obj: S3Object) -> pa.Schema:
        """See TypedFormat.schema_of."""
        with self._opened(obj) as opened:
            return spark_schema(pa.schema([pa.field(field.name, spark_type(field)) for field in opened.fields]))

    def _decoded(
        self, opened: _Opened, stripes: Sequence[RowGroup], places: Sequence[int]
    ) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """Yield the rows of some stripes, with the columns at some places, in Spark's types."""
        if not places:
            for stripe in stripes:
                for start in range(0, stripe.rows, MOST_ROWS):
                    yield stripe, pa.record_batch([pa.nulls(min(MOST_ROWS, stripe.rows - start))], [""])
            return
        tail, fields = opened.tail, [opened.fields[place] for place in places]
        columns = tail.columns_below(places)
        for place, field in zip(places, fields, strict=True):
            if tail.holds_far_times(tail.columns_below([place])):
                raise CorruptDataError(f"the column {field.name!r} has times beyond the years 1678 to 2261")
        rows = min(MOST_ROWS, max(1, BATCH_BYTES // tail.row_bytes(columns)))
        with closing(ObjectFile(opened.obj.size, opened.fetch, SMALL_BYTES)) as source:
            if not opened.is_whole:
                source.hold(merged_ranges([tail.footer_range(stripe) for stripe in stripes]))
            footers = [tail.footer(_ranges_of(source), stripe) for stripe in stripes]
            ranges = [footer.ranges(columns) for footer in footers]
            held = [sum(end - start for start, end in stripe_ranges) <= HELD_BYTES for stripe_ranges in ranges]
            for index, footer in enumerate(footers):
                if not opened.is_whole:
                    source.hold(chain.from_iterable(compress(ranges[index : index + 2], held[index : index + 2])))
                values = OrcValues(zone_shift_s(footer.zone), tail.is_julian)
                for batch in _batches(source, tail, footer, places, rows):
                    arrays = [values.converted(*pair) for pair in zip(batch.columns, fields, strict=True)]
                    yield footer.stripe, pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])

    def _times(self, opened: _Opened, column: str) -> list[tuple[TimeRange | None, int]]:
        """Return for each stripe the range of its times, and the number of its rows without one."""
        stripes = opened.tail.stripes
        place = self.time_place(column, opened.fields)
        if place is None:
            return [(None, stripe.rows) for stripe in stripes]
        times, tallies = self.seen_times(opened.obj, column), {stripe: TimeTally() for stripe in stripes}
        for stripe, batch in self._decoded(opened, stripes, [place]):
            times.add(tallies[stripe], batch, stripe.start)
        return [(tally.times, tally.rows_without_time) for tally in tallies.values()]

    @contextmanager
    def _opened(self, obj: S3Object, *, whole: bool = False) -> Iterator[_Opened]:
        """Read the tail of an object, and add its address to errors of decoding; ``whole``: read all of it."""
        failures: list[Exception] = []
        start = 0 if whole else max(0, obj.size - TAIL_BYTES)

        def fetch(begin: int, end: int) -> bytes:
            try:
                return data[begin - start : end - start] if begin >= start else self.store.fetch(obj, begin, end)
            except Exception as problem:
                failures.append(problem)
                raise

        with self.decoding(obj):
            data = self.store.fetch(obj, start, obj.size)
            try:
                with closing(ObjectFile(obj.size, fetch, SMALL_BYTES)) as source:
                    file = _orc_file(source)
                    opened = _Opened(obj, tail_of(file), list(file.schema), fetch, is_whole=start == 0)
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
    source: ObjectFile, tail: OrcTail, footer: StripeFooter, places: Sequence[int], rows: int
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
            batch_size=rows,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )


def _ranges_of(source: ObjectFile) -> Fetch:
    def fetch(start: int, end: int) -> bytes:
        source.seek(start)
        return source.read(end - start)

    return fetch
