"""Surveys of CSV, which give the times of chunks, and inference, which gives the schema of samples."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.readers.formats.contract import TO_CONTINUE
from tests.support.objects.lab import InMemory, Memory
from tidegate.errors import BadRecordError, OptionError
from tidegate.readers.event_time.columns import TimeColumn
from tidegate.readers.formats import surveys
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv import CsvFormat
from tidegate.readers.formats.options import CsvDialect
from tidegate.readers.objects.partitions import GivenColumns
from tidegate.readers.objects.values import TimeRange

TIME = pa.field("at", pa.timestamp("us", "UTC"))


@pytest.mark.parametrize("read_times", [None, TimeColumn(TIME, ("at",), TIME.type, None)])
def test_a_record_with_more_or_fewer_values_is_bad_also_to_a_survey(read_times):
    """Such a record often lacks its time only because a quoted line end has cut it in two."""
    memory = Memory(b'x,at\n1,2023-11-14T22:13:20Z\n"two\nlines",2023-11-14T22:13:21Z\n')

    def survey(**policy):
        policy = BadRecordPolicy(**policy)
        made = CsvFormat(memory, dialect=CsvDialect(header=True), bad_records=policy, read_times=read_times)
        [surveyed] = made.survey(memory.object, "at")
        return surveyed

    with pytest.raises(
        BadRecordError, match=r"the line at byte 28 has quotes that are not of this dialect .*" + TO_CONTINUE + "$"
    ):
        survey()
    for policy in ({"mode": "DROPMALFORMED"}, {"path": "aside"}):
        assert survey(**policy).rows_without_time == 0
    assert survey(mode="PERMISSIVE").rows_without_time > 0


@pytest.mark.parametrize("multi_line", [False, True])
def test_what_is_looked_at_whole_is_known_exactly(multi_line, monkeypatch):
    if multi_line:
        monkeypatch.setattr(surveys, "WHOLE_BYTES", 0)
    memory = Memory(b"x,at\n1,2023-11-14T22:13:20Z\n2,\n\n3,2023-11-14 22:13:21.5\n4,soon\n")
    made = CsvFormat(memory, dialect=CsvDialect(header=True, multi_line=multi_line))
    (survey,) = made.survey(memory.object, "at")
    assert (survey.rows, survey.rows_without_time) == (4, 2)
    assert survey.times == TimeRange(1_700_000_000_000, 1_700_000_001_500)
    (survey,) = made.survey(memory.object, "elsewhere")
    assert (survey.rows, survey.rows_without_time, survey.times) == (4, 4, None)


def test_the_column_of_times_is_found_without_a_header_too():
    memory = Memory(b"1,1700000000\n", "day=1/x")
    by_name = CsvFormat(memory, "s", columns=GivenColumns(("day", "x", "at")))
    by_number = CsvFormat(memory, "s")
    for made, column in [(by_name, "at"), (by_number, "_c1")]:
        assert made.survey(memory.object, column)[0].times == TimeRange(1_700_000_000_000, 1_700_000_000_000)
    with pytest.raises(OptionError, match="the event-time column '_c1' of day=1/x holds numbers, so eventTimeUnit"):
        CsvFormat(memory).survey(memory.object, "_c1")


def inferred(*contents: bytes, infer_schema: bool = True, **dialect) -> pa.Schema:
    store = InMemory(**{f"{number}.csv": text for number, text in enumerate(contents)})
    made = CsvFormat(store, dialect=CsvDialect(**dialect), infer_schema=infer_schema)
    return made.infer([*map(store.listed, store.contents)])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "", "-2"], pa.int64()),
        (["1", "12345678901234567890"], pa.decimal128(20, 0)),
        (["1", "1" * 39], pa.float64()),
        (["1", "1.5", "NaN"], pa.float64()),
        (["2020-01-31", "2020-02-29"], pa.date32()),
        (["2020-01-31", "2020-01-31T00:00:00"], pa.string()),
        (["2020-01-31 10:00:00", "2020-01-31T00:00:00Z"], pa.timestamp("us", "UTC")),
        (["true", "FALSE"], pa.bool_()),
        (["true", "1"], pa.string()),
        (["", ""], pa.string()),
    ],
)
def test_types_are_inferred_in_sparks_order(cells, kind):
    content = "\n".join(f"{cell},x" for cell in cells).encode()
    assert inferred(content) == pa.schema([("_c0", kind), ("_c1", pa.string())])
    assert inferred(content, infer_schema=False) == pa.schema([("_c0", pa.string()), ("_c1", pa.string())])


def test_the_schema_is_that_of_all_samples_in_the_order_in_which_they_name_columns():
    schema = inferred(b"a,b\n1,x\n", b"\nB,c,,A\n2,3,4,1.5\n", b"a\n", header=True)
    assert schema == pa.schema([("a", pa.float64()), ("b", pa.string()), ("c", pa.int64()), ("_c2", pa.int64())])
    assert inferred(b"a,A,b\n1,2,3\n", header=True).names == ["a0", "A1", "b"]
    with pytest.raises(OptionError, match=r"^no object of s3://data has a line to infer columns from; give a schema$"):
        inferred(b"\n \n", b"")
