"""Parquet objects against pyarrow's own reading of the same bytes, and against Spark's."""

from __future__ import annotations

import io
import pickle
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.support.objects.arrow_tables import arrays, fields
from tests.support.objects.lab import InMemory, chunk, laid, read
from tidegate.errors import CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.arrow.conform import conform, spark_schema
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.parquet.footer import statistics_times
from tidegate.readers.formats.parquet.format import BATCH_BYTES, ParquetFormat
from tidegate.readers.objects.values import ChunkSurvey, S3Object, TimeRange
from tidegate.readers.s3.store import SMALL_BYTES, ObjectStore

MODULE = "tidegate.readers.formats.parquet.format"
UTC_MS = pa.timestamp("ms", "UTC")


def parquet(table: pa.Table, **options) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def path_of(large: bool, streamed: bool) -> ExitStack:
    """Take the way of large objects, or that of large row groups, for small ones too."""
    limits = {"SMALL_BYTES": 100, "TAIL_BYTES": 40} if large else {}
    if streamed:
        limits |= {"HELD_BYTES": 0, "LEAST_REQUEST": 32, "MOST_REQUEST": 64}
    stack = ExitStack()
    if limits:
        stack.enter_context(mock.patch.multiple(MODULE, **limits))
    return stack


TIME_COLUMNS = [
    (pa.timestamp("s"), None), (UTC_MS, None), (pa.timestamp("us"), None), (pa.timestamp("ns"), None),
    (pa.date32(), None), (pa.int32(), "s"), (pa.int64(), "us"), (pa.uint32(), "ms"), (pa.uint64(), "ms"),
    (pa.string(), "iso8601"), (pa.string(), "s"), (pa.float64(), "s"),
]  # fmt: skip


@st.composite
def time_columns(draw: st.DrawFn, rows: int):
    kind, unit = draw(st.sampled_from(TIME_COLUMNS))
    if pa.types.is_string(kind):
        texts = ["1970-01-01T01:00+01:00", "1970-01-01", "2024-05-01T00:00:00.5Z", "?", "12", "9", "-1.5"]
        values = draw(st.lists(st.none() | st.sampled_from(texts), min_size=rows, max_size=rows))
        return pa.array(values, kind), unit
    if kind == pa.timestamp("ns"):
        numbers = draw(st.lists(st.none() | st.integers(-(2**62), 2**62), min_size=rows, max_size=rows))
        return pa.array(numbers, pa.int64()).view(kind), unit
    return draw(arrays(kind, rows)), unit


@settings(max_examples=150)
@given(st.data())
def test_any_survey_gives_each_row_once_and_the_times_of_its_chunks(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 12))
    field = data.draw(fields())
    at, unit = data.draw(time_columns(rows))
    nested = data.draw(st.booleans())
    columns = {"c": data.draw(arrays(field.type, rows)), "at": at}
    if nested:
        columns["at"] = pa.StructArray.from_arrays(
            [at, columns["c"]],
            ["when", "other"],
            mask=pa.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), pa.bool_()),
        )
    content = parquet(
        pa.table(columns),
        row_group_size=data.draw(st.integers(1, 5)),
        write_statistics=data.draw(st.booleans()),
        use_dictionary=data.draw(st.booleans()),
        compression=data.draw(st.sampled_from(["none", "snappy", "zstd", "gzip", "lz4"])),
    )
    found = S3Object("x", len(content), "", 0)
    column = "at.when" if nested else "at"
    whole = pq.read_table(io.BytesIO(content))
    stored = whole.combine_chunks().to_batches()[0] if rows else pa.RecordBatch.from_pylist([], whole.schema)
    schema = spark_schema(stored.schema)
    expected = pa.Table.from_batches([conform(stored, schema)], schema)
    values = stored.column("at")
    times = times_ms(pa.compute.struct_field(values, "when") if nested else values, unit).to_pylist()

    with path_of(data.draw(st.booleans()), data.draw(st.booleans())):
        made = ParquetFormat(InMemory(content), unit, data.draw(st.integers(1, 2 * len(content))))
        surveys = made.survey(found, column)
        tables = [read(made, found, schema, each.start, each.end) for each in surveys]

    assert [each.start for each in surveys] == [0, *(each.end for each in surveys)][: len(surveys)]
    assert not surveys or surveys[-1].end == found.size
    assert [table.num_rows for table in tables] == [each.rows for each in surveys]
    assert pa.concat_tables([schema.empty_table(), *tables]).combine_chunks().equals(expected.combine_chunks())
    for each in surveys:
        mine = [time for time in times[: each.rows] if time is not None]
        assert each.times == (TimeRange(min(mine), max(mine)) if mine else None)
        assert each.rows_without_time == each.rows - len(mine)
        del times[: each.rows]


@settings(max_examples=300)
@given(st.data())
def test_statistics_bound_the_times_or_do_not_tell(data: st.DataObject) -> None:
    at, unit = data.draw(time_columns(data.draw(st.integers(1, 4))))
    metadata = pq.read_metadata(io.BytesIO(parquet(pa.table({"at": at}))))
    times = times_ms(at, unit)
    known = statistics_times(metadata, 0, 0, unit)
    if known is None:
        assert pa.types.is_string(at.type) or pa.types.is_floating(at.type) or times.null_count > at.null_count
    else:
        usable = times.drop_null().to_pylist()
        assert known == ((TimeRange(min(usable), max(usable)) if usable else None), at.null_count)


@pytest.mark.parametrize(
    ("kind", "numbers", "expected"),
    [
        (pa.uint32(), [1, 2**32 - 1], TimeRange(1, 2**32 - 1)),
        (pa.uint64(), [1, 2**63 + 5], None),
        (pa.int64(), [1, 2**62], None),
        (pa.int32(), [-5, 7], TimeRange(-5, 7)),
    ],
)
def test_statistics_of_integers_are_told_by_their_sign_and_size(kind, numbers, expected) -> None:
    metadata = pq.read_metadata(io.BytesIO(parquet(pa.table({"at": pa.array(numbers, kind)}))))
    assert statistics_times(metadata, 0, 0, "ms") == (expected and (expected, 0))


@pytest.mark.parametrize("nullable", [True, False])
def test_without_a_count_of_nulls_statistics_tell_only_of_a_column_that_has_none(nullable) -> None:
    table = pa.table([[1, 2]], pa.schema([pa.field("at", pa.int64(), nullable=nullable)]))
    schema = pq.read_metadata(io.BytesIO(parquet(table))).schema
    # As some writers leave it; pyarrow always counts.
    told = SimpleNamespace(has_null_count=False, has_min_max=True, min_raw=1, max_raw=2, physical_type="INT64")
    group = SimpleNamespace(num_rows=2, column=lambda _: SimpleNamespace(statistics=told))
    metadata = SimpleNamespace(schema=schema, row_group=lambda _: group)
    assert statistics_times(metadata, 0, 0, "ms") == (None if nullable else (TimeRange(1, 2), 0))


@settings(max_examples=60)
@given(st.data())
def test_any_cuts_give_each_row_once(data: st.DataObject) -> None:
    table = pa.table({"a": range(20), "b": [f"{number}" for number in range(20)]})
    content = parquet(table, row_group_size=3)
    found = S3Object("x", len(content), "", 0)
    cuts = sorted(data.draw(st.lists(st.integers(0, found.size), max_size=4)))
    with path_of(data.draw(st.booleans()), data.draw(st.booleans())):
        made = ParquetFormat(InMemory(content))
        tables = [
            read(made, found, table.schema, start, end)
            for start, end in zip([0, *cuts], [*cuts, found.size], strict=True)
        ]
    assert pa.concat_tables(tables).equals(table)


def test_a_small_object_costs_one_request_and_none_when_no_time_is_asked_for(store, folder) -> None:
    found = laid(folder, parquet(pa.table({"at": pa.array([1, 2], UTC_MS), "b": ["x", "y"]})))
    made = ParquetFormat(store)
    (survey,) = made.survey(found, None)
    assert (survey.start, survey.end, survey.times, survey.rows_without_time) == (0, found.size, None, 0)
    assert survey.rows >= 1
    assert store.asked == []
    assert made.survey(found, "at") == [ChunkSurvey(0, found.size, 2, TimeRange(1, 2))]
    schema = pa.schema([("b", pa.string())])
    assert read(made, found, schema).to_pylist() == [{"b": "x"}, {"b": "y"}]
    assert store.asked == [(0, found.size)] * 2


def test_an_empty_object_and_one_without_rows_have_no_chunks(store, folder) -> None:
    made = ParquetFormat(store)
    assert made.survey(laid(folder, b"", "empty"), "at") == []
    assert made.survey(laid(folder, b"", "empty"), None) == []
    assert made.survey(laid(folder, parquet(pa.table({"at": pa.array([], UTC_MS)}))), "at") == []


@pytest.fixture(scope="module")
def large(folder) -> tuple[S3Object, pa.Table]:
    """An object beyond SMALL_BYTES of four row groups, each column some 5 MB in one."""
    random = np.random.default_rng(7)
    rows = 2_400_000
    table = pa.table({"at": pa.array(np.arange(rows), UTC_MS), "x": random.random(rows), "y": random.random(rows)})
    found = laid(folder, parquet(table, row_group_size=rows // 4, use_dictionary=False, compression="none"))
    assert found.size > 4 * SMALL_BYTES
    return found, table


def test_only_the_columns_asked_for_are_fetched_of_a_large_object(store, large) -> None:
    found, table = large
    made = ParquetFormat(store)
    schema = spark_schema(table.schema)
    assert read(made, found, pa.schema([schema.field("y")])).column("y").equals(table.column("y"))
    assert sum(end - start for start, end in store.asked) < found.size / 2.5
    assert max(end - start for start, end in store.asked) <= SMALL_BYTES
    store.asked.clear()
    surveys = ParquetFormat(store, chunk_bytes=1).survey(found, "at")
    assert len(store.asked) == 1
    assert [each.times for each in surveys] == [
        TimeRange(start, start + 599_999) for start in range(0, 2_400_000, 600_000)
    ]
    store.asked.clear()
    assert read(made, found, schema, surveys[2].start, surveys[2].end).num_rows == 600_000
    assert sum(end - start for start, end in store.asked) < found.size / 3.5


def test_a_row_group_too_large_to_be_held_is_fetched_bit_by_bit(store, large) -> None:
    found, table = large
    with mock.patch.multiple(MODULE, HELD_BYTES=1 << 20, STREAMED_BYTES=3 << 20):
        made = read(ParquetFormat(store), found, spark_schema(table.schema))
    assert made.column("x").equals(table.column("x"))
    # A page is read whole.
    assert max(end - start for start, end in store.asked) < 3 << 20


@pytest.mark.parametrize("size", [10, 3_000, BATCH_BYTES // 2 + 1, BATCH_BYTES + 1])
def test_batches_are_bounded_whatever_the_dictionaries_hide(store, folder, size) -> None:
    rows = min(20_000, 5 * BATCH_BYTES // size + 3)
    found = laid(folder, parquet(pa.table({"s": pa.array(["x" * size] * rows)}), row_group_size=rows))
    batches = list(ParquetFormat(store).read(chunk(found), pa.schema([("s", pa.string())])))
    assert sum(batch.num_rows for batch in batches) == rows
    assert all(batch.nbytes <= BATCH_BYTES or batch.num_rows == 1 for batch in batches)


@pytest.mark.parametrize("large_path", [False, True])
def test_an_object_overwritten_after_the_survey_is_gone(config, store, folder, large_path) -> None:
    client = config.client()
    first, second = (parquet(pa.table({"at": pa.array([time], UTC_MS)})) for time in (1, 2))
    assert len(first) == len(second)
    for key in ("with space/ü+%41.parquet", "gone"):
        etag = client.put_object(Bucket="data", Key=key, Body=first)["ETag"].strip('"')
        found = S3Object(key, len(first), etag, 0)
        made = ParquetFormat(store)
        with path_of(large_path, streamed=False):
            assert read(made, found, pa.schema([("at", UTC_MS)])).num_rows == 1
            assert made.survey(found, "at")[0].times == TimeRange(1, 1)
            client.put_object(Bucket="data", Key=key, Body=second)
            sentence = r"^s3://data/.* was overwritten after it was found$"
            with pytest.raises(ObjectGoneError, match=sentence):
                made.survey(found, "at")
            with pytest.raises(ObjectGoneError, match=sentence):
                read(made, found, pa.schema([("at", UTC_MS)]))


def test_truncated_objects_are_corrupt_wherever_they_end(store, folder) -> None:
    content = parquet(pa.table({"at": pa.array([1, 2], UTC_MS)}))
    for end in [1, 4, 7, 8, 11, 12, *range(13, len(content), 17), len(content) - 1]:
        found = laid(folder, content[:end], f"truncated/{end}")
        sentence = f"^s3://data/truncated/{end} "
        with pytest.raises(CorruptDataError, match=sentence):
            ParquetFormat(store).survey(found, "at")
        with pytest.raises(CorruptDataError, match=sentence):
            read(ParquetFormat(store), found, pa.schema([]))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x" * 100 + b"\xff\x00\x00\x00PAR1", "its footer would have 263 bytes, and it has 108"),
        (b"x" * 100 + b"\x10\x00\x00\x00PAR1", "is no Parquet that can be read: "),
        (b"x" * 100 + b"\x10\x00\x00\x00PARE", "its footer is encrypted"),
        (b'{"a": 1}\n' * 10, "it does not end as Parquet does"),
    ],
)
def test_what_is_no_parquet_is_told(store, folder, content, sentence) -> None:
    with pytest.raises(CorruptDataError) as error:
        ParquetFormat(store).survey(laid(folder, content, "no parquet"), "at")
    assert str(error.value).startswith("s3://data/no parquet ")
    assert sentence in str(error.value)


@pytest.mark.parametrize("streamed", [False, True])
def test_broken_pages_are_corrupt(store, folder, streamed) -> None:
    content = bytearray(parquet(pa.table({"s": [f"text {number}" for number in range(500)]}), compression="zstd"))
    content[60:900] = bytes(840)
    with (
        path_of(streamed, streamed),
        pytest.raises(CorruptDataError, match=r"^s3://data/broken is no Parquet that can be"),
    ):
        read(ParquetFormat(store), laid(folder, bytes(content), "broken"), pa.schema([("s", pa.string())]))


@pytest.mark.parametrize("large_path", [False, True])
def test_columns_are_those_of_the_schema(store, folder, large_path) -> None:
    found = laid(
        folder, parquet(pa.table({"a": [1, 2], "s.t": ["x", "y"], "n": [{"p": 1, "q": 2}] * 2}), row_group_size=1)
    )
    inner = pa.struct([("q", pa.int64()), ("r", pa.string())])
    schema = pa.schema([("S.T", pa.string()), ("missing", pa.float64()), ("n", inner)])
    made = ParquetFormat(store)
    with path_of(large_path, streamed=False):
        assert read(made, found, schema).to_pylist() == [
            {"S.T": text, "missing": None, "n": {"q": 2, "r": None}} for text in "xy"
        ]
        assert read(made, found, pa.schema([("missing", pa.int8())])).to_pylist() == [{"missing": None}] * 2
        assert sum(batch.num_rows for batch in made.read(chunk(found), pa.schema([]))) == 2
    with pytest.raises(CorruptDataError, match=r"^s3://data/.* cannot be read: the column 'a' is of the type int64"):
        read(made, found, pa.schema([("a", UTC_MS)]))


def test_a_column_that_an_object_lacks_leaves_its_rows_without_time(store, folder) -> None:
    found = laid(folder, parquet(pa.table({"a": [1, 2, 3]})))
    assert ParquetFormat(store).survey(found, "at") == [ChunkSurvey(0, found.size, 3, None, 3)]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("n", "the column 'n' holds no event time: it has not one value in a row"),
        ("list.list.element", "the column 'list.list.element' holds no event time: it has not one value in a row"),
        ("number", "eventTimeUnit is not given, but the column 'number' of type int64 needs s, ms or us"),
        ("price", "the column 'price' is of type decimal128(9, 2), which holds no event time"),
    ],
)
def test_a_column_that_is_no_time_is_refused(store, folder, column, sentence) -> None:
    table = pa.table({"n": [{"p": 1}], "list": [[1]], "number": [1], "price": [Decimal("1.23")]})
    table = table.set_column(3, "price", table.column("price").cast(pa.decimal128(9, 2)))
    with pytest.raises(OptionError) as error:
        ParquetFormat(store).survey(laid(folder, parquet(table)), column)
    assert str(error.value) == sentence


def test_int96_is_an_instant_and_is_read_for_its_times(store, folder) -> None:
    moments = pa.array([5_000_001, None, -1], pa.timestamp("us"))
    content = parquet(
        pa.table({"n": [1, 2, 3], "s": pa.StructArray.from_arrays([moments], ["at"])}),
        use_deprecated_int96_timestamps=True,
    )
    found = laid(folder, content)
    made = ParquetFormat(store)
    schema = made.infer([found])
    assert schema.field("s").type == pa.struct([("at", pa.timestamp("us", "UTC"))])
    assert made.survey(found, "s.at") == [ChunkSurvey(0, found.size, 3, TimeRange(-1, 5_000), 1)]
    column = read(made, found, schema).column("s").combine_chunks()
    assert column.field("at").view(pa.int64()).to_pylist() == [5_000_001, None, -1]


def test_the_schema_is_that_of_all_samples(store, folder) -> None:
    tables = [{"a": pa.array([1], pa.int32())}, {"b": ["x"], "a": pa.array([1], pa.uint16())}, {"a": pa.array([1])}]
    found = [laid(folder, parquet(pa.table(columns))) for columns in tables]
    made = ParquetFormat(store)
    assert made.infer(found[:2]) == pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert made.infer([*found, S3Object("empty", 0, "", 0)]) == pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(OptionError, match="the objects disagree on the type of a column; give a schema"):
        made.infer([found[0], laid(folder, parquet(pa.table({"a": [[1]]})))])
    with pytest.raises(OptionError, match="no object of s3://data holds bytes"):
        made.infer([S3Object("empty", 0, "", 0)])


def test_a_format_is_picklable(store, folder) -> None:
    found = laid(folder, parquet(pa.table({"a": [1, 2, 3]})))
    made = pickle.loads(pickle.dumps(ParquetFormat(ObjectStore(store.config, "data"), "ms")))  # noqa: S301
    assert made.survey(found, "a")[0].times == TimeRange(1, 3)


def test_what_spark_wrote_is_what_spark_reads(spark, store, folder) -> None:
    moment = datetime(2024, 2, 29, 12, 30, 1, 123_456)  # noqa: DTZ001 - the session's zone is UTC
    rows = [
        (1, moment, moment, Decimal("1.20"), [{"k": moment}], b"\x00", True, 1.5),
        (None, None, None, None, None, None, None, None),
    ]
    columns = "i byte, at timestamp, ntz timestamp_ntz, d decimal(20,2), l array<map<string,timestamp>>, b binary"
    written = spark.createDataFrame(rows, f"{columns}, t boolean, f float").coalesce(1)
    written.write.parquet(str(folder / "by spark"))
    (path,) = (folder / "by spark").glob("*.parquet")
    found = laid(folder, path.read_bytes())
    made = ParquetFormat(store)
    frame = spark.read.parquet(str(path))
    schema = made.infer([found])
    assert StructType.fromJson(from_arrow_schema(schema).jsonValue()) == frame.schema
    assert read(made, found, schema).to_pylist() == frame.toArrow().to_pylist()
    at_ms = int((moment - datetime(1970, 1, 1)).total_seconds() * 1000)  # noqa: DTZ001
    for column in ("at", "ntz"):
        assert made.survey(found, column) == [ChunkSurvey(0, found.size, 2, TimeRange(at_ms, at_ms), 1)]
