"""ORC objects against pyarrow's own reading of the same bytes, and against Spark's."""

from __future__ import annotations

import io
import itertools
import pickle
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.support.objects.arrow_tables import arrays
from tests.support.objects.lab import InMemory, chunk, held, laid, read
from tidegate.errors import CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.arrow.conform import conform, spark_schema
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.orc.format import OrcFormat
from tidegate.readers.formats.row_groups import BATCH_BYTES
from tidegate.readers.objects.values import ChunkSurvey, S3Object, TimeRange
from tidegate.readers.s3.store import SMALL_BYTES, ObjectStore

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]
UTC_US = pa.timestamp("us", "UTC")


def orc_file(table: pa.Table, stripe_rows: int | None = None, **options) -> bytes:
    """Return a file; with ``stripe_rows`` as large as the writer's batches, each is a stripe."""
    stream = io.BytesIO()
    if stripe_rows is not None:
        options |= {"stripe_size": 1, "batch_size": stripe_rows}
    orc.write_table(table, stream, **options)
    return stream.getvalue()


def as_if_large(large: bool) -> ExitStack:
    """Take the way of large objects for small ones too."""
    stack = ExitStack()
    if large:
        stack.enter_context(mock.patch.multiple("tidegate.readers.formats.orc.format", SMALL_BYTES=100))
        stack.enter_context(mock.patch.multiple("tidegate.readers.formats.orc.tail", TAIL_BYTES=40))
    return stack


_PRIMITIVE = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(), pa.decimal128(5, 2), pa.decimal128(38, 0),
]  # fmt: skip
kinds = st.recursive(
    st.sampled_from(_PRIMITIVE),
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda some: pa.struct([(f"f{n}", each) for n, each in enumerate(some)])
        )
        | inner.map(lambda kind: pa.map_(pa.string(), kind))
    ),
    max_leaves=4,
)
TIMES = [
    (pa.timestamp("ms"), None), (UTC_US, None), (pa.timestamp("ns"), None), (pa.date32(), None), (pa.int32(), "s"),
    (pa.int64(), "us"), (pa.int16(), "ms"), (pa.string(), "iso8601"), (pa.float64(), "s"),
]  # fmt: skip


@st.composite
def time_columns(draw: st.DrawFn, rows: int):
    kind, unit = draw(st.sampled_from(TIMES))
    if pa.types.is_timestamp(kind):
        # Before 1970 the writer and readers of other languages differ in a second.
        numbers = draw(st.lists(st.none() | st.integers(0, 2**40), min_size=rows, max_size=rows))
        return pa.array(numbers, pa.int64()).view(kind), unit
    if pa.types.is_string(kind):
        texts = ["1970-01-01T01:00+01:00", "1970-01-01", "2024-05-01T00:00:00.5Z", "?", "12"]
        return pa.array(draw(st.lists(st.none() | st.sampled_from(texts), min_size=rows, max_size=rows)), kind), unit
    return draw(arrays(kind, rows)), unit


@settings(max_examples=100)
@given(st.data())
def test_any_survey_gives_each_row_once_and_the_times_of_its_chunks(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 12))
    at, unit = data.draw(time_columns(rows))
    nested = data.draw(st.booleans())
    columns = {"c": data.draw(arrays(data.draw(kinds), rows)), "at": at}
    if nested:
        hidden = pa.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), pa.bool_())
        columns["at"] = pa.StructArray.from_arrays([at, columns["c"]], ["when", "other"], mask=hidden)
    codec = data.draw(st.sampled_from(CODECS))
    content = orc_file(pa.table(columns), data.draw(st.integers(1, 5)), compression=codec)
    found = held(content)
    column = "at.when" if nested else "at"
    stored = orc.ORCFile(io.BytesIO(content)).read().combine_chunks().to_batches()[0]
    with as_if_large(data.draw(st.booleans())):
        made = OrcFormat(InMemory(content), unit, data.draw(st.integers(1, 2 * len(content))))
        schema = made.infer([found])
        surveys = made.survey(found, column)
        tables = [read(made, found, schema, each.start, each.end) for each in surveys]

    expected = pa.Table.from_batches([conform(stored, schema)], schema)
    when = stored.column("at")
    times = times_ms(pa.compute.struct_field(when, "when") if nested else when, unit).to_pylist()
    assert [each.start for each in surveys] == [0, *(each.end for each in surveys)][: len(surveys)]
    assert surveys[-1].end == found.size
    assert [table.num_rows for table in tables] == [each.rows for each in surveys]
    assert pa.concat_tables(tables).combine_chunks().equals(expected.combine_chunks())
    for each in surveys:
        mine = [time for time in times[: each.rows] if time is not None]
        assert each.times == (TimeRange(min(mine), max(mine)) if mine else None)
        assert each.rows_without_time == each.rows - len(mine)
        del times[: each.rows]


@settings(max_examples=60)
@given(st.data())
def test_any_cuts_give_each_row_once(data: st.DataObject) -> None:
    table = pa.table({"a": range(20), "b": [f"{number}" for number in range(20)]})
    content = orc_file(table, 3)
    assert orc.ORCFile(io.BytesIO(content)).nstripes == 7
    found = held(content)
    cuts = sorted(data.draw(st.lists(st.integers(0, found.size), max_size=4)))
    with as_if_large(data.draw(st.booleans())):
        made = OrcFormat(InMemory(content))
        pairs = zip([0, *cuts], [*cuts, found.size], strict=True)
        tables = [read(made, found, table.schema, start, end) for start, end in pairs]
    assert pa.concat_tables(tables).equals(table)


def test_times_come_from_statistics_where_they_tell(store, folder) -> None:
    table = pa.table(
        {
            "at": pa.array([5, None, 7, 9], UTC_US).cast(pa.timestamp("ns", "UTC")),
            "n": pa.array([1, 2, None, None]),
            "s": ["1", "2", "3", "4"],
        }
    )
    found = laid(folder, orc_file(table, 2))
    made = OrcFormat(store, None, chunk_bytes=1)
    with mock.patch.object(OrcFormat, "_decoded", side_effect=AssertionError("it is read")):
        assert [(each.times, each.rows_without_time) for each in made.survey(found, "at")] == [
            (TimeRange(0, 0), 1),
            (TimeRange(0, 0), 0),
        ]
        counted = OrcFormat(store, "s", chunk_bytes=1)
        assert [each.times for each in counted.survey(found, "n")] == [TimeRange(1000, 2000), None]
        with pytest.raises(AssertionError, match="it is read"):
            counted.survey(found, "s")
    assert [each.times for each in counted.survey(found, "s")] == [TimeRange(1000, 2000), TimeRange(3000, 4000)]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")])
@pytest.mark.parametrize("pair", [(-1, 1), (-999_999, -2), (-1_000_000, -999_999), (-1_000_001, -1), (0, 999_998)])
def test_times_before_1970_are_rounded_down_as_those_of_the_rows_are(store, folder, kind, pair) -> None:
    found = laid(folder, orc_file(pa.table({"at": pa.array(pair, kind)})))
    (piece,) = OrcFormat(store).survey(found, "at")
    assert piece.times == TimeRange(pair[0] // 10**6, pair[1] // 10**6)


def test_a_range_of_times_before_1970_is_wider_where_statistics_tell_no_nanoseconds(store, folder, monkeypatch) -> None:
    monkeypatch.setattr("tidegate.readers.formats.orc.tail._FINER", (105, 106))  # as of a writer that knows them not
    found = laid(folder, orc_file(pa.table({"at": pa.array([-1_500, 1_500], pa.timestamp("us"))})))
    (piece,) = OrcFormat(store).survey(found, "at")
    assert piece.times == TimeRange(-2, 1)


def test_a_small_object_costs_one_request_and_none_when_no_time_is_asked_for(store, folder) -> None:
    found = laid(folder, orc_file(pa.table({"at": pa.array([1000, 2000], UTC_US), "b": ["x", "y"]})))
    made = OrcFormat(store)
    (survey,) = made.survey(found, None)
    assert (survey.start, survey.end, survey.times, survey.rows_without_time) == (0, found.size, None, 0)
    assert survey.rows >= 1
    assert store.asked == []
    assert made.survey(found, "at") == [ChunkSurvey(0, found.size, 2, TimeRange(1, 2))]
    schema = pa.schema([("b", pa.string())])
    assert read(made, found, schema).to_pylist() == [{"b": "x"}, {"b": "y"}]
    assert store.asked == [(0, found.size)] * 2


def test_an_empty_object_and_one_without_rows_have_no_chunks(store, folder) -> None:
    made = OrcFormat(store)
    assert made.survey(laid(folder, b"", "empty"), "at") == []
    assert made.survey(laid(folder, b"", "empty"), None) == []
    assert made.survey(laid(folder, orc_file(pa.table({"at": pa.array([], UTC_US)}))), "at") == []


@pytest.fixture(scope="module")
def large(folder) -> tuple[S3Object, pa.Table]:
    """An object beyond SMALL_BYTES of several stripes."""
    random = np.random.default_rng(7)
    rows = 1_200_000
    table = pa.table(
        {"at": pa.array(np.arange(rows) * 1000, UTC_US), "x": random.random(rows), "y": random.random(rows)}
    )
    found = laid(folder, orc_file(table, stripe_size=8 << 20, batch_size=50_000))
    assert found.size > 2 * SMALL_BYTES
    return found, table


def test_only_the_columns_asked_for_are_fetched_of_a_large_object(store, large) -> None:
    found, table = large
    made = OrcFormat(store)
    schema = spark_schema(table.schema)
    assert read(made, found, pa.schema([schema.field("y")])).column("y").equals(table.column("y"))
    assert sum(end - start for start, end in store.asked) < found.size / 1.8
    assert max(end - start for start, end in store.asked) <= SMALL_BYTES
    store.asked.clear()
    surveys = OrcFormat(store, chunk_bytes=1).survey(found, "at")
    assert len(store.asked) == 1
    assert len(surveys) > 2
    starts = np.cumsum([0, *(each.rows for each in surveys)]).tolist()
    assert [each.times for each in surveys] == [TimeRange(a, b - 1) for a, b in itertools.pairwise(starts)]
    store.asked.clear()
    assert read(made, found, schema, surveys[1].start, surveys[1].end).num_rows == surveys[1].rows
    assert sum(end - start for start, end in store.asked) < surveys[1].end - surveys[1].start + (128 << 10)


def test_a_stripe_too_large_to_be_held_is_fetched_bit_by_bit(store, large) -> None:
    found, table = large
    with mock.patch.multiple("tidegate.readers.formats.orc.format", HELD_BYTES=1 << 20):
        made = read(OrcFormat(store), found, spark_schema(table.schema))
    assert made.column("x").equals(table.column("x"))
    assert max(end - start for start, end in store.asked) < 1 << 20


@pytest.mark.parametrize("size", [10, 3_000, BATCH_BYTES // 2 + 1, BATCH_BYTES + 1])
def test_batches_are_bounded(store, folder, size) -> None:
    rows = min(20_000, 5 * BATCH_BYTES // size + 3)
    found = laid(folder, orc_file(pa.table({"s": pa.array(["x" * size] * rows)}), compression="zstd"))
    batches = list(OrcFormat(store).read(chunk(found), pa.schema([("s", pa.string())])))
    assert sum(batch.num_rows for batch in batches) == rows
    assert all(batch.nbytes <= BATCH_BYTES or batch.num_rows == 1 for batch in batches)


@pytest.mark.parametrize("large_path", [False, True])
def test_an_object_overwritten_after_the_survey_is_gone(config, store, folder, large_path) -> None:
    client = config.client()
    first, second = (orc_file(pa.table({"at": pa.array([time], UTC_US)})) for time in (1000, 2000))
    assert len(first) == len(second)
    etag = client.put_object(Bucket="data", Key="gone.orc", Body=first)["ETag"].strip('"')
    found = S3Object("gone.orc", len(first), etag, 0)
    made = OrcFormat(store)
    schema = pa.schema([("at", UTC_US)])
    with as_if_large(large_path):
        batches = made.read(chunk(found), schema)
        assert read(made, found, schema).num_rows == 1
        assert made.survey(found, "at")[0].times == TimeRange(1, 1)
        client.put_object(Bucket="data", Key="gone.orc", Body=second)
        sentence = r"^s3://data/gone.orc was overwritten after it was found$"
        with pytest.raises(ObjectGoneError, match=sentence):
            made.survey(found, "at")
        with pytest.raises(ObjectGoneError, match=sentence):
            list(batches)


def test_an_object_overwritten_while_it_is_read_is_gone(config, store, folder, large) -> None:
    client = config.client()
    found, table = large
    content = (folder / found.key).read_bytes()
    etag = client.put_object(Bucket="data", Key="during.orc", Body=content)["ETag"].strip('"')
    batches = OrcFormat(store).read(chunk(S3Object("during.orc", len(content), etag, 0)), spark_schema(table.schema))
    with mock.patch.multiple("tidegate.readers.formats.orc.format", HELD_BYTES=0):
        next(batches)
        client.put_object(Bucket="data", Key="during.orc", Body=b"x" * len(content))
        with pytest.raises(ObjectGoneError, match=r"^s3://data/during.orc was overwritten after it was found$"):
            list(batches)


def test_truncated_objects_are_corrupt_wherever_they_end() -> None:
    content = orc_file(pa.table({"at": pa.array([1000, 2000], UTC_US)}), compression="zlib")
    for end in range(1, len(content), 3):
        made, found = OrcFormat(InMemory(content[:end])), held(content[:end])
        with pytest.raises(CorruptDataError, match=r"^s3://data/x "):
            made.survey(found, "at")
        with pytest.raises(CorruptDataError, match=r"^s3://data/x "):
            read(made, found, pa.schema([]))


@settings(max_examples=150)
@given(st.data())
def test_changed_bytes_are_corrupt_or_other_values(data: st.DataObject) -> None:
    table = pa.table({"at": pa.array([1000, 2000] * 9, UTC_US), "s": ["text", None] * 9})
    content = bytearray(orc_file(table, 4, compression=data.draw(st.sampled_from(CODECS))))
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[at] = data.draw(st.integers(0, 255))
    made, found = OrcFormat(InMemory(bytes(content))), held(bytes(content))
    problems = []
    try:
        made.survey(found, "at")
        read(made, found, pa.schema([("s", pa.string()), ("at", UTC_US)]))
    except CorruptDataError as problem:
        problems.append(str(problem))
    except OptionError as problem:
        problems.append(f"s3://data/x {problem}")  # the type of the column is another one
    assert all(each.startswith("s3://data/x ") for each in problems)


def test_columns_are_those_of_the_schema(store, folder) -> None:
    table = pa.table({"a": [1, 2], "s.t": ["x", "y"], "n": [{"p": 1, "q": 2}] * 2, "s": [{"t": 1}] * 2})
    found = laid(folder, orc_file(table, 1))
    inner = pa.struct([("q", pa.int64()), ("r", pa.string())])
    schema = pa.schema([("S.T", pa.string()), ("missing", pa.float64()), ("n", inner)])
    made = OrcFormat(store)
    assert read(made, found, schema).to_pylist() == [
        {"S.T": text, "missing": None, "n": {"q": 2, "r": None}} for text in "xy"
    ]
    assert read(made, found, pa.schema([("missing", pa.int8())])).to_pylist() == [{"missing": None}] * 2
    assert sum(batch.num_rows for batch in made.read(chunk(found), pa.schema([]))) == 2
    with pytest.raises(CorruptDataError, match=r"^s3://data/.* cannot be read: the column 'a' is of the type int64"):
        read(made, found, pa.schema([("a", UTC_US)]))


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("n", "the column 'n' is of type struct<p: int64>, which holds no event time"),
        ("number", "eventTimeUnit is not given, but the column 'number' of type int64 needs s, ms or us"),
        ("price", "the column 'price' is of type decimal128(9, 2), which holds no event time"),
    ],
)
def test_a_column_that_is_no_time_is_refused(store, folder, column, sentence) -> None:
    price = pa.array([Decimal("1.23")], pa.decimal128(9, 2))
    content = orc_file(pa.table({"n": [{"p": 1}], "number": [1], "price": price}))
    with pytest.raises(OptionError) as error:
        OrcFormat(store).survey(laid(folder, content), column)
    assert str(error.value) == sentence


def test_a_column_that_an_object_lacks_leaves_its_rows_without_time(store, folder) -> None:
    found = laid(folder, orc_file(pa.table({"a": [1, 2, 3]})))
    assert OrcFormat(store).survey(found, "at") == [ChunkSurvey(0, found.size, 3, None, 3)]


def test_the_schema_is_that_of_all_samples(store, folder) -> None:
    tables = [{"a": pa.array([1], pa.int32())}, {"b": ["x"], "a": pa.array([1], pa.int16())}, {"a": pa.array([1])}]
    found = [laid(folder, orc_file(pa.table(columns))) for columns in tables]
    made = OrcFormat(store)
    assert made.infer(found[:2]) == pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert made.infer([*found, S3Object("empty", 0, "", 0)]) == pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(OptionError, match="no object of s3://data holds bytes"):
        made.infer([S3Object("empty", 0, "", 0)])


def test_a_format_is_picklable(store, folder) -> None:
    found = laid(folder, orc_file(pa.table({"a": [1, 2, 3]})))
    made = pickle.loads(pickle.dumps(OrcFormat(ObjectStore(store.config, "data"), "ms")))  # noqa: S301
    assert made.survey(found, "a")[0].times == TimeRange(1, 3)


def test_what_spark_wrote_is_what_spark_reads(spark, tmp_path) -> None:
    frame = spark.sql("""
        select id, timestamp_millis(1709209801123 + id) at, timestamp_ntz'0001-01-01 00:00:00.5' ntz,
            array(named_struct('at', timestamp_ntz'2024-02-29', 'days', map(date'1500-03-01', id))) nested,
            date_add(date'0001-01-01', cast(id * 9000 as int)) day, cast(id % 100 as byte) i,
            cast(id as decimal(20, 2)) d, cast('x' as binary) b, id % 2 = 0 t, cast(id as float) f, 'abc' v
        from range(200) union all select null, null, null, null, null, null, null, null, null, null, null
    """).coalesce(1)
    for codec in ("none", "zlib", "snappy", "lz4", "zstd"):
        frame.write.option("compression", codec).orc(str(tmp_path / codec))
        (path,) = (tmp_path / codec).glob("*.orc")
        content = path.read_bytes()
        made, found = OrcFormat(InMemory(content)), held(content)
        read_by_spark = spark.read.orc(str(path))
        schema = made.infer([found])
        assert StructType.fromJson(from_arrow_schema(schema).jsonValue()) == read_by_spark.schema
        assert read(made, found, schema).to_pylist() == read_by_spark.toArrow().to_pylist()
        assert made.survey(found, "at") == [
            ChunkSurvey(0, found.size, 201, TimeRange(1_709_209_801_123, 1_709_209_801_322), 1)
        ]
        first = int((datetime(1, 1, 1) - datetime(1970, 1, 1)).total_seconds() * 1000)  # noqa: DTZ001
        assert made.survey(found, "ntz")[0].times == TimeRange(first + 500, first + 500)
        assert made.survey(found, "day")[0].times.min_ms == first


@pytest.fixture
def jvm_zone(spark):
    """Sets the zone in which Spark writes and reads timestamps of ORC."""
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    yield lambda name: zones.setDefault(zones.getTimeZone(name))
    zones.setDefault(before)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_timestamps_are_instants_whatever_the_zone_of_the_writer(spark, jvm_zone, tmp_path, zone) -> None:
    jvm_zone(zone)
    first = 1_729_987_200_000  # 2024-10-27 00:00 UTC; clocks in Berlin then show an hour twice
    hours = spark.range(10).selectExpr(
        f"timestamp_millis({first} + id * 1800000 + 1) at",
        "array(timestamp_micros((id - 5) * 3600000000 + 1500), null) near_1970",
    )
    hours.coalesce(1).write.orc(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.orc")
    content = path.read_bytes()
    made, found = OrcFormat(InMemory(content)), held(content)
    assert read(made, found, made.infer([found])).to_pylist() == spark.read.orc(str(path)).toArrow().to_pylist()
    assert made.survey(found, "at") == [ChunkSurvey(0, found.size, 10, TimeRange(first + 1, first + 9 * 1_800_000 + 1))]


def test_times_beyond_nanoseconds_are_told_and_do_not_hinder_other_columns(spark, tmp_path) -> None:
    spark.sql("select 1 id, timestamp'9999-12-31' until").write.orc(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.orc")
    content = path.read_bytes()
    made, found = OrcFormat(InMemory(content)), held(content)
    assert made.survey(found, "until")[0].times == TimeRange(253_402_214_400_000, 253_402_214_400_000)
    assert read(made, found, pa.schema([("id", pa.int32())])).to_pylist() == [{"id": 1}]
    sentence = "^s3://data/x cannot be read: the column 'until' has times beyond the years 1678 to 2261$"
    with pytest.raises(CorruptDataError, match=sentence):
        read(made, found, made.infer([found]))


def test_values_that_do_not_fit_follow_the_policy(store, folder) -> None:
    found = laid(folder, orc_file(pa.table({"n": ["1", "x"], "s": ["a", None]})))
    schema = pa.schema([("n", pa.int64()), ("rest", pa.string())])
    rescued = read(OrcFormat(store, bad_records=BadRecordPolicy(rescued_column="rest")), found, schema)
    address = f"s3://data/{found.key}"
    assert rescued.to_pylist() == [
        {"n": 1, "rest": f'{{"s":"a","_file_path":"{address}"}}'},
        {"n": None, "rest": f'{{"n":"x","_file_path":"{address}"}}'},
    ]
    dropped = OrcFormat(store, bad_records=BadRecordPolicy("DROPMALFORMED"))
    assert read(dropped, found, pa.schema([("n", pa.int64())])).to_pylist() == [{"n": 1}]
