import pyarrow as pa
import pyarrow.compute as pc

from tests.conformance.memory.reference import MemoryReader, MemorySource
from tests.conformance.mutants.changes import batches, rows, times, values
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.references import AsideReader, aside


def with_a_large_string_at_the_end(read):
    *others, last = list(read)
    fields = [field.with_type(pa.large_string()) if field.name == "value" else field for field in last.schema]
    return [*others, last.cast(pa.schema(fields))]


def with_bytes_in_a_text(batch):
    latin = batch.column("value").cast(pa.binary()).to_pylist()
    damaged = pa.array([None if text is None else text[:1] + b"\xff" for text in latin], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(damaged), damaged.buffers(), damaged.null_count)
    return batch.set_column(1, "value", text)


def microseconds(batch):
    return batch.column("at").cast(pa.int64())


class SchemaOfItsSource(MemoryReader):
    def read(self, task):
        for batch in super().read(task):
            yield pa.record_batch(batch.columns, schema=self._source.arrow_schema)


class SortsByTime(MemoryReader):
    def _read(self, client, wanted):
        rows = pa.Table.from_batches(super()._read(client, wanted), self._source.arrow_schema)
        yield from rows.sort_by("at").combine_chunks().to_batches()


class HasAWatermarkColumn(MemorySource):
    @property
    def arrow_schema(self):
        return super().arrow_schema.append(pa.field("source_watermark", pa.timestamp("us", "UTC")))


class NeverNull(MemorySource):
    """Declares that values are never null."""

    @property
    def arrow_schema(self):
        return super().arrow_schema.set(1, pa.field("value", pa.string(), nullable=False))


class OneBatchForARange(MemoryReader):
    def _read(self, client, wanted):
        rows = pa.Table.from_batches(super()._read(client, wanted), self._source.arrow_schema)
        yield from rows.combine_chunks().to_batches()


class DeliversBadRecords(AsideReader):
    _read = MemoryReader._read


class CountsNone(AsideReader):
    def count(self, wanted, number):
        pass


class CountsInTheFirstRange(AsideReader):
    def count(self, wanted, number):
        super().count(next(iter(self.bad_records), wanted), number)


class DeliversThemToThePlanner(AsideReader):
    def without_writing(self):
        return MemoryReader(self._source)


READ = [
    ("values are stripped", "READ-15", ("blanks was written",), values(lambda text: text and text.strip())),
    (
        "huge values are cut",
        "READ-15",
        ("a huge one", "a text of 1,048,576 characters"),
        values(lambda text: text and text[: 1 << 20]),
    ),
    ("rows are sorted by time", "READ-18", ("out of order",), sinful(reader=SortsByTime)),
    (
        "rows before 1970 are left out",
        "READ-18",
        ("2 missing",),
        batches(lambda batch: batch.filter(pc.fill_null(pc.greater_equal(microseconds(batch), 0), fill_value=True))),
    ),
    (
        "times are an hour off",
        "READ-26",
        ("row 0#0", "read with one 3,600,000 ms later"),
        times(lambda time_ms: time_ms + 3_600_000),
    ),
    (
        "the last batch has another schema",
        "READ-21",
        ("'value' is large_string, not string",),
        sinful(reader=rows(with_a_large_string_at_the_end)),
    ),
    ("a text is no UTF-8", "READ-21", ("not valid Arrow", "UTF8"), batches(with_bytes_in_a_text)),
    ("a range is one batch", "READ-24", ("20 of 20 rows", "40 MB"), sinful(reader=OneBatchForARange)),
]

ASIDE = [
    ("bad records are delivered", ("'-1#0' was never written",), DeliversBadRecords),
    ("bad records are not counted", ("4 bad records were written, and bad_records counts 0",), CountsNone),
    (
        "bad records count in the first range",
        ("2 bad records when its positions are read alone, but 4",),
        CountsInTheFirstRange,
    ),
    ("the planner's reader delivers bad records", ("read with writing, and without",), DeliversThemToThePlanner),
    ("a reader counts nothing where its source says so", ("is no SupportsBadRecords",), MemoryReader),
]

MUTANTS = [
    *(Mutant(*entry) for entry in READ),
    *(Mutant(sin, "READ-30", words, aside(reader=reader)) for sin, words, reader in ASIDE),
    Mutant(
        "the source has a column that is tidegate's",
        "READ-21",
        ("a column source_watermark",),
        sinful(source=HasAWatermarkColumn),
    ),
    Mutant(
        "a column that is never null holds nulls",
        "READ-21",
        ("'value' is not nullable",),
        sinful(source=NeverNull, reader=SchemaOfItsSource),
    ),
]
