import pyarrow as pa

from tests.conformance.memory.reference import MemoryReader
from tests.conformance.mutants.changes import batches, rows
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
    (
        "the last batch has another schema",
        "READ-21",
        ("'value' is large_string, not string",),
        sinful(reader=rows(with_a_large_string_at_the_end)),
    ),
    ("a text is no UTF-8", "READ-21", ("not valid Arrow", "UTF8"), batches(with_bytes_in_a_text)),
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
]
