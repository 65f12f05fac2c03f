import unicodedata
from abc import abstractmethod
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.mutants.read import Batches
from tests.conformance.references import AsideReader, aside
from tidegate.conformance.memory.reference import MemoryReader, MemorySource


class Values(Batches):
    """Yields other values than it has read."""

    @abstractmethod
    def value(self, text):
        """Return the value that is yielded instead."""

    def changed(self, batch):
        texts = [self.value(text) for text in batch.column("value").to_pylist()]
        return batch.set_column(1, "value", pa.array(texts, pa.string()))


class Filtered(Batches):
    """Leaves rows out by their event times, which have the type of the column."""

    @abstractmethod
    def keeps(self, times):
        """Return for each time, in microseconds, whether its row is kept."""

    def changed(self, batch):
        return batch.filter(self.keeps(batch.column("at").cast(pa.int64())))


class Strips(Values):
    def value(self, text):
        return text and text.strip()


class Normalises(Values):
    def value(self, text):
        return text and unicodedata.normalize("NFC", text)


class TakesLinesApart(Values):
    def value(self, text):
        return text and text.replace("\r\n", "\n")


class EmptyIsNull(Values):
    def value(self, text):
        return text or None


class NullIsEmpty(Values):
    def value(self, text):
        return text or ""


class NullIsAWord(Values):
    def value(self, text):
        return "null" if text is None else text


class CutsHugeValues(Values):
    def value(self, text):
        return text and text[: 1 << 20]


class LeavesOutNulls(Batches):
    def changed(self, batch):
        return batch.filter(pc.is_valid(batch.column("value")))


class SortsByTime(MemoryReader):
    def _read(self, client, wanted):
        rows = pa.Table.from_batches(super()._read(client, wanted), self._source.arrow_schema)
        yield from rows.sort_by("at").combine_chunks().to_batches()


class LeavesOutWhatIsOld(Filtered):
    def keeps(self, times):
        return pc.greater(times, 1_767_000_000_000_000)


class LeavesOutWhatHasNoTime(Filtered):
    def keeps(self, times):
        return pc.is_valid(times)


class LeavesOutNegativeTimes(Filtered):
    def keeps(self, times):
        return pc.or_kleene(pc.is_null(times), pc.greater_equal(times, 0))


class LargeStringsAtTheEnd(MemoryReader):
    def read(self, task):
        batches = list(super().read(task))
        yield from batches[:-1]
        for batch in batches[-1:]:
            fields = [field.with_type(pa.large_string()) if field.name == "value" else field for field in batch.schema]
            yield batch.cast(pa.schema(fields))


class GuessesTypes(Batches):
    def changed(self, batch):
        nulls = batch.column("value").null_count == batch.num_rows
        return batch.set_column(1, "value", pa.nulls(batch.num_rows)) if nulls else batch


class AddsMetadata(Batches):
    def changed(self, batch):
        return batch.replace_schema_metadata({"pandas": "{}"})


class OtherOrder(Batches):
    def changed(self, batch):
        return batch.select(["value", "key", "at"])


class HasAWatermarkColumn(MemorySource):
    @property
    def arrow_schema(self):
        return super().arrow_schema.append(pa.field("source_watermark", pa.timestamp("us", "UTC")))


class BytesInAText(Batches):
    def changed(self, batch):
        latin = batch.column("value").cast(pa.binary()).to_pylist()
        damaged = pa.array(
            [None if latin_text is None else latin_text[:1] + b"\xff" for latin_text in latin], pa.binary()
        )
        text = pa.Array.from_buffers(pa.string(), len(damaged), damaged.buffers(), damaged.null_count)
        return batch.set_column(1, "value", text)


class NeverNull(MemorySource):
    """Declares that values are never null."""

    @property
    def arrow_schema(self):
        return super().arrow_schema.set(1, pa.field("value", pa.string(), nullable=False))


class SchemaOfItsSource(Batches):
    def changed(self, batch):
        return pa.record_batch(batch.columns, schema=self._source.arrow_schema)


class ToldColumnsComeInAnotherOrder(MemorySource):
    told: bool = False

    def with_schema(self, schema):
        return self.model_copy(update={"told": True})

    @property
    def arrow_schema(self):
        schema = super().arrow_schema
        return pa.schema(list(schema)[::-1]) if self.told else schema


class ChangesTimes(MemoryReader):
    """Yields other event times than it has read."""

    @abstractmethod
    def changed_ms(self, time_ms):
        """Return the value that is yielded instead."""

    def read(self, task):
        for batch in super().read(task):
            times = batch.column("at").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
            changed = pa.array(map(self.changed_ms, times), pa.timestamp("ms", "UTC"))
            yield batch.set_column(2, batch.schema.field("at"), changed.cast(batch.schema.field("at").type))


class ReadsAnHourLater(ChangesTimes):
    def changed_ms(self, time_ms):
        return time_ms + 3_600_000


class ReadsFullSeconds(ChangesTimes):
    def changed_ms(self, time_ms):
        return time_ms // 1000 * 1000


class LeavesOutTimes(ChangesTimes):
    def changed_ms(self, time_ms):
        return None


class TimesOfTheMachine(ChangesTimes):
    def changed_ms(self, time_ms):
        return time_ms + 1_000 * int(datetime.fromtimestamp(time_ms / 1_000).astimezone().utcoffset().total_seconds())


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


class CountsOfTheProcess(AsideReader):
    def __init__(self, source):
        super().__init__(source)
        self.bad_records = COUNTED


class DeliversThemToThePlanner(AsideReader):
    def without_writing(self):
        return MemoryReader(self._source)


COUNTED = {}

READERS = [
    ("values are stripped", "READ-15", ("blanks was written",), Strips),
    ("values are normalised", "READ-15", ("accent",), Normalises),
    ("line ends are changed", "READ-15", ("a tab and line ends",), TakesLinesApart),
    ("empty texts are null", "READ-15", ("an empty text", "and null was read"), EmptyIsNull),
    ("nulls are empty", "READ-15", ("a null was written", "and '' was read"), NullIsEmpty),
    ("nulls are a word", "READ-15", ("and 'null' was read",), NullIsAWord),
    ("rows with nulls are left out", "READ-15", ("2 missing",), LeavesOutNulls),
    ("huge values are cut", "READ-15", ("a huge one", "a text of 1,048,576 characters"), CutsHugeValues),
    ("rows are sorted by time", "READ-18", ("out of order",), SortsByTime),
    ("old rows are left out", "READ-18", ("0#8              missing",), LeavesOutWhatIsOld),
    ("rows without time are left out", "READ-18", ("3 missing",), LeavesOutWhatHasNoTime),
    ("rows before 1970 are left out", "READ-18", ("2 missing",), LeavesOutNegativeTimes),
    ("times are an hour off", "READ-26", ("row 0#0", "read with one 3,600,000 ms later"), ReadsAnHourLater),
    ("times come without milliseconds", "READ-26", ("row 0#6", "read with one 1 ms earlier"), ReadsFullSeconds),
    ("times are those of the machine", "READ-11", ("column 'at' differs",), TimesOfTheMachine),
    ("times are left out", "READ-26", ("951,825,600,000 ms, and read with none",), LeavesOutTimes),
    ("the last batch has another schema", "READ-21", ("'value' is large_string, not string",), LargeStringsAtTheEnd),
    ("types are guessed", "READ-21", ("'value' is null, not string",), GuessesTypes),
    ("batches have metadata of their own", "READ-21", ("its metadata is",), AddsMetadata),
    ("columns come in another order", "READ-21", ("its columns are value, key, at",), OtherOrder),
    ("a text is no UTF-8", "READ-21", ("not valid Arrow", "UTF8"), BytesInAText),
    ("a range is one batch", "READ-24", ("20 of 20 rows", "40 MB"), OneBatchForARange),
]

ASIDE = [
    ("bad records are delivered", ("'-1#0' was never written",), DeliversBadRecords),
    ("bad records are not counted", ("4 bad records were written, and bad_records counts 0",), CountsNone),
    (
        "bad records count in the first range",
        ("2 bad records when its positions are read alone, but 4",),
        CountsInTheFirstRange,
    ),
    ("bad records count again with each task", ("when the ranges are read again",), CountsOfTheProcess),
    ("the planner's reader delivers bad records", ("read with writing, and without",), DeliversThemToThePlanner),
    ("a reader counts nothing where its source says so", ("is no SupportsBadRecords",), MemoryReader),
]

MUTANTS = [
    *(Mutant(sin, killer, words, sinful(reader=reader)) for sin, killer, words, reader in READERS),
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
    Mutant(
        "columns of a given schema come in another order",
        "READ-23",
        ("given columns change",),
        sinful(source=ToldColumnsComeInAnotherOrder),
    ),
]
