"""Parquet, ORC and Avro, compared with what pyarrow and Spark read from the same bytes."""

from __future__ import annotations

import io
import itertools
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

from tests.readers.formats.contract import CASES, time_columns
from tests.readers.formats.files import SPARKS_AVRO, orc_file, orc_format, parquet, parquet_format
from tests.support.objects.lab import GONE, InMemory, Memory, chunk, held, read
from tidegate.errors import BadRecordError, CorruptDataError, ObjectGoneError
from tidegate.readers.arrow.conform import conform
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv import converter_of
from tidegate.readers.formats.json import JsonFormat
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.parquet import statistics_times
from tidegate.readers.formats.registry import FORMATS, Reading
from tidegate.readers.formats.typed import TypedFormat
from tidegate.readers.objects.values import SMALL_BYTES, ChunkSurvey, TimeRange


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x" * 100 + b"\xff\x00\x00\x00PAR1", "its footer would have 263 bytes, and it has 108"),
        (b"x" * 100 + b"\x10\x00\x00\x00PAR1", "cannot be read as Parquet: "),
        (b"x" * 100 + b"\x10\x00\x00\x00PARE", "its footer is encrypted"),
        (b'{"a": 1}\n' * 10, "it does not end as Parquet does"),
    ],
)
def test_what_is_no_parquet_is_reported(content, sentence) -> None:
    store = InMemory(**{"no parquet": content})
    with pytest.raises(CorruptDataError) as error:
        parquet_format(store).survey(store.listed("no parquet"), "at")
    assert str(error.value).startswith("s3://data/no parquet ")
    assert sentence in str(error.value)


def test_int96_is_an_instant_and_is_read_for_its_times() -> None:
    moments = pa.array([5_000_001, None, -1], pa.timestamp("us"))
    content = parquet(
        pa.table({"n": [1, 2, 3], "s": pa.StructArray.from_arrays([moments], ["at"])}),
        use_deprecated_int96_timestamps=True,
    )
    store, obj = InMemory(content), held(content)
    made = parquet_format(store)
    schema = made.infer([obj])
    assert schema.field("s").type == pa.struct([("at", pa.timestamp("us", "UTC"))])
    assert made.survey(obj, "s.at") == [ChunkSurvey(0, obj.size, 3, TimeRange(-1, 5_000), 1)]
    column = read(made, obj, schema).column("s").combine_chunks()
    assert column.field("at").view(pa.int64()).to_pylist() == [5_000_001, None, -1]


@settings(max_examples=300)
@given(st.data())
def test_statistics_bound_the_times_or_do_not_tell(data: st.DataObject) -> None:
    at, unit = data.draw(time_columns(CASES["parquet"], data.draw(st.integers(1, 4))))
    metadata = pq.read_metadata(io.BytesIO(parquet(pa.table({"at": at}))))
    times = times_ms(at, unit)
    known = statistics_times(metadata, 0, 0, unit)
    if known is None:
        assert pa.types.is_string(at.type) or pa.types.is_floating(at.type) or times.null_count > at.null_count
    else:
        usable = times.drop_null().to_pylist()
        assert known == ((TimeRange(min(usable), max(usable)) if usable else None), at.null_count)


@pytest.mark.parametrize("nullable", [True, False])
def test_without_a_count_of_nulls_statistics_tell_only_of_a_column_that_has_none(nullable) -> None:
    table = pa.table([[1, 2]], pa.schema([pa.field("at", pa.int64(), nullable=nullable)]))
    schema = pq.read_metadata(io.BytesIO(parquet(table))).schema
    # Some writers do not count nulls; pyarrow always does.
    uncounted = SimpleNamespace(has_null_count=False, has_min_max=True, min_raw=1, max_raw=2, physical_type="INT64")
    group = SimpleNamespace(num_rows=2, column=lambda _: SimpleNamespace(statistics=uncounted))
    metadata = SimpleNamespace(schema=schema, row_group=lambda _: group)
    assert statistics_times(metadata, 0, 0, "ms") == (None if nullable else (TimeRange(1, 2), 0))


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")])
@pytest.mark.parametrize("pair", [(-1, 1), (-999_999, -2), (-1_000_000, -999_999), (-1_000_001, -1), (0, 999_998)])
def test_times_before_1970_are_rounded_down_as_those_of_the_rows_are(kind, pair) -> None:
    store = InMemory(orc_file(pa.table({"at": pa.array(pair, kind)})))
    (piece,) = orc_format(store).survey(store.listed(), "at")
    assert piece.times == TimeRange(pair[0] // 10**6, pair[1] // 10**6)


@pytest.fixture
def jvm_zone(spark):
    """Return the function that sets the zone in which Spark writes and reads timestamps of ORC."""
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    yield lambda name: zones.setDefault(zones.getTimeZone(name))
    zones.setDefault(before)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_timestamps_are_those_that_spark_reads_in_utc(spark, jvm_zone, tmp_path, zone) -> None:
    jvm_zone(zone)
    hours = spark.range(10).selectExpr(
        "timestamp_millis(1729987200000 + id * 1800000 + 1) at",  # clocks in Berlin show an hour twice then
        # In another zone, pyarrow.orc takes a second from fractions of the first hours of 1970 (ORC-763).
        "array(timestamp_micros((id - 5) * 3600000000 + 1500), null) near_1970" if zone == "UTC" else "id",
    )
    hours.coalesce(1).write.orc(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.orc")
    content = path.read_bytes()
    jvm_zone("UTC")
    rows = spark.read.orc(str(path)).toArrow().to_pylist()
    made, obj = orc_format(InMemory(content)), held(content)
    assert read(made, obj, made.infer([obj])).to_pylist() == rows
    times = [int(row["at"].timestamp() * 1000 + 0.5) for row in rows]
    assert made.survey(obj, "at") == [ChunkSurvey(0, obj.size, 10, TimeRange(min(times), max(times)))]


def test_times_beyond_nanoseconds_are_reported_and_do_not_hinder_other_columns(spark, tmp_path) -> None:
    spark.sql("select 1 id, timestamp'9999-12-31' until").write.orc(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.orc")
    content = path.read_bytes()
    made, obj = orc_format(InMemory(content)), held(content)
    assert read(made, obj, pa.schema([("id", pa.int32())])).to_pylist() == [{"id": 1}]
    for look in (lambda: read(made, obj, made.infer([obj])), lambda: made.survey(obj, "until")):
        with pytest.raises(CorruptDataError, match=r"^s3://data/x cannot be read as ORC: .* out of range"):
            look()


def test_columns_of_hive_without_names_are_those_of_the_schema_by_position() -> None:
    at = pa.array([5, 7], pa.timestamp("ms"))
    content = orc_file(pa.table({"_col0": [1, 2], "_col1": ["a", "b"], "_col2": at}))
    store, obj = InMemory(**{"day=1/x": content}), held(content)._replace(key="day=1/x")
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    given = FORMATS["orc"].create(FormatOptions(), store, Reading(("day", "id", "name", "at")))
    assert read(given, obj, schema).to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert given.survey(obj, "at")[0].times == TimeRange(5, 7)
    inferred = FORMATS["orc"].create(FormatOptions(), store, Reading())
    assert inferred.infer([obj]).names == ["_col0", "_col1", "_col2"]


def test_an_object_of_an_acid_table_is_refused() -> None:
    row = pa.array([{"id": 1}])
    names = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")
    content = orc_file(pa.table({**{name: [0] for name in names}, "row": row}))
    made, obj = orc_format(InMemory(content)), held(content)
    for look in (lambda: made.infer([obj]), lambda: read(made, obj, pa.schema([("id", pa.int64())]))):
        with pytest.raises(CorruptDataError, match=r"^s3://data/x cannot be read: it belongs to an ACID table of Hive"):
            look()


ROWS = 1_200_000
RANDOM = np.random.default_rng(7)
TABLE = pa.table(
    {
        "at": pa.array(np.arange(ROWS) * 1000, pa.timestamp("us", "UTC")),
        "x": RANDOM.random(ROWS),
        "y": RANDOM.random(ROWS),
    }
)


@pytest.fixture(scope="module", params=[parquet_format, orc_format])
def large(request) -> tuple[type[TypedFormat], bytes]:
    """A format, and its object with several groups of rows."""
    if request.param is parquet_format:
        content = parquet(TABLE, ROWS // 4, use_dictionary=False, compression="none")
    else:
        content = orc_file(TABLE, stripe_size=8 << 20, batch_size=50_000)
    assert len(content) > 2 * SMALL_BYTES
    return request.param, content


def test_only_the_columns_asked_for_are_fetched_of_a_large_object(large) -> None:
    made_of, content = large
    store, obj = InMemory(content), held(content)
    made = made_of(store)
    assert read(made, obj, TABLE.select(["y"]).schema).column("y").equals(TABLE.column("y"))
    assert sum(end - start for start, end in store.asked) < obj.size / 1.8
    assert max(end - start for start, end in store.asked) <= SMALL_BYTES
    store.asked.clear()
    surveys = made_of(store, chunk_bytes=1).survey(obj, "at")
    assert sum(end - start for start, end in store.asked) < obj.size / 1.8
    assert len(store.asked) == 1 or made_of is orc_format  # its statistics tell the times
    assert len(surveys) > 2
    starts = np.cumsum([0, *(survey.rows for survey in surveys)]).tolist()
    assert [survey.times for survey in surveys] == [TimeRange(a, b - 1) for a, b in itertools.pairwise(starts)]
    store.asked.clear()
    assert read(made, obj, TABLE.schema, surveys[1].start, surveys[1].end).num_rows == surveys[1].rows
    assert sum(end - start for start, end in store.asked) < surveys[1].end - surveys[1].start + (128 << 10)


def test_only_the_leaf_of_a_struct_is_fetched_for_its_times() -> None:
    texts = pa.array([f"1970-01-01T00:00:{second:02}Z" for second in range(50)] * 200)  # statistics do not tell them
    noise = pa.array([RANDOM.bytes(300) for _ in texts])
    content = parquet(pa.table({"s": pa.StructArray.from_arrays([texts, noise], ["at", "noise"])}))
    store, obj = InMemory(content), held(content)
    (survey,) = parquet_format(store, "iso8601").survey(obj, "s.at")
    assert survey.times == TimeRange(0, 49_000)
    assert sum(end - start for start, end in store.asked) < obj.size / 10


def test_a_group_too_large_to_be_held_is_fetched_bit_by_bit() -> None:
    content = parquet(TABLE, ROWS // 4, use_dictionary=False, compression="none")
    store, obj = InMemory(content), held(content)
    with mock.patch.multiple("tidegate.readers.formats.parquet", HELD_BYTES=1 << 20, STREAMED_BYTES=3 << 20):
        rows = read(parquet_format(store), obj, TABLE.schema)
    assert rows.column("x").equals(TABLE.column("x"))
    assert max(end - start for start, end in store.asked) < 3 << 20  # a page of Parquet is read as a whole


def test_an_object_overwritten_while_it_is_read_is_gone(large) -> None:
    made_of, content = large
    store = InMemory(content)
    batches = made_of(store).read(chunk(store.listed()), TABLE.schema)
    with mock.patch.multiple("tidegate.readers.formats.parquet", HELD_BYTES=0):
        next(batches)
        store.gone = True
        with pytest.raises(ObjectGoneError, match=f"^{GONE}$"):
            list(batches)


FIRST_MS = 1_709_209_801_123
YEAR_1_MS = int((datetime(1, 1, 1) - datetime(1970, 1, 1)).total_seconds() * 1000)  # noqa: DTZ001
WRITTEN = """
    select id, timestamp_millis(1709209801123 + id) at, timestamp_ntz'0001-01-01 00:00:00.5' ntz,
        array(named_struct('at', timestamp_ntz'2024-02-29', 'days', map('k', date'1500-03-01'))) nested,
        array(map('k', timestamp_micros(id))) times, date_add(date'0001-01-01', cast(id * 9000 as int)) day,
        cast(id % 100 as byte) i, cast(id as decimal(20, 2)) d, cast('x' as binary) b, id % 2 = 0 t,
        cast(id as float) f, 'abc' v
    from range(200) union all select null, null, null, null, null, null, null, null, null, null, null, null
"""


@pytest.mark.parametrize(
    ("name", "source", "codecs"),
    [
        ("parquet", "parquet", ["snappy", "lz4"]),  # Spark's lz4 is Hadoop's, which Arrow never writes
        ("orc", "orc", ["zstd"]),
        ("avro", SPARKS_AVRO, ["snappy", "zstandard"]),  # fastavro writes all other codecs
    ],
)
def test_what_spark_wrote_is_what_spark_reads(spark, tmp_path, name, source, codecs) -> None:
    frame = spark.sql(WRITTEN).coalesce(1)
    for codec in codecs:
        frame.write.format(source).option("compression", codec).save(str(tmp_path / codec))
        (path,) = (tmp_path / codec).glob("part-*")
        store = InMemory(path.read_bytes())
        made, obj = CASES[name].made(store), store.listed()
        theirs = spark.read.format(source).load(str(path))
        schema = made.infer([obj])
        assert StructType.fromJson(from_arrow_schema(schema).jsonValue()) == theirs.schema
        assert read(made, obj, schema).to_pylist() == theirs.toArrow().to_pylist()
        assert made.survey(obj, "at") == [ChunkSurvey(0, obj.size, 201, TimeRange(FIRST_MS, FIRST_MS + 199), 1)]
        assert made.survey(obj, "ntz")[0].times == TimeRange(YEAR_1_MS + 500, YEAR_1_MS + 500)
        assert made.survey(obj, "day")[0].times.min_ms == YEAR_1_MS


KIND = pa.decimal128(10, 2)
NOTHING = Decimal("0.00")

# Spark rounds these half up; None: the text is no decimal.
LONG = [
    ("1e-10000000", None),
    ("-7.5E-0099", NOTHING),
    ("7e-41", NOTHING),
    ("0." + "0" * 60 + "7", NOTHING),
    ("1.5" + "0" * 60, Decimal("1.50")),
    ("1500000000000000000000000e-24", Decimal("1.50")),
]


@pytest.mark.parametrize(("text", "expected"), LONG)
@pytest.mark.parametrize("written", ["{}", '"{}"'])
@pytest.mark.parametrize("columns", [pa.schema([("s", pa.list_(KIND))]), pa.schema([("s", pa.struct([("d", KIND)]))])])
def test_lines_of_json_are_read_one_by_one_for_them(text, expected, written, columns):
    value = written.format(text)
    nested = f"[{value}]" if pa.types.is_list(columns.field("s").type) else f'{{"d":{value}}}'
    memory = Memory(f'{{"s":{nested}}}\n'.encode())
    made = JsonFormat(memory, bad_records=BadRecordPolicy("PERMISSIVE"))
    [batch] = made.read(chunk(memory.object), columns)
    inner = [expected] if pa.types.is_list(columns.field("s").type) else {"d": expected}
    assert batch.to_pylist() == [{"s": None if isinstance(inner, list) and expected is None else inner}]


def test_no_escape_hides_one():
    memory = Memory(rb'{"d":"1e\u002d10000000"}' + b"\n")
    made = JsonFormat(memory, bad_records=BadRecordPolicy("PERMISSIVE"))
    [batch] = made.read(chunk(memory.object), pa.schema([("d", KIND)]))
    assert batch.to_pylist() == [{"d": None}]


@pytest.mark.parametrize(("text", "expected"), LONG)
def test_values_of_csv_are_read_one_by_one_for_them(text, expected):
    decimals, missed = converter_of("d", KIND)(pa.array([text, "2.5"]))
    assert decimals.to_pylist() == [expected, Decimal("2.50")]
    assert (missed is not None) == (expected is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-10000000", None),
        ("7e-41", None),
        ("none.00000000000000000000", None),
        ("0e-41", NOTHING),
        ("-1.5" + "0" * 60, Decimal("-1.50")),
        ("1500000000000000000000000e-24", Decimal("1.50")),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_of_texts_becomes_decimals_where_none_is_rounded(text, expected, kind):
    batch = pa.record_batch({"d": pa.array([text, None, "2.5"], kind)})
    if expected is None:
        with pytest.raises(BadRecordError, match=r"^the column 'd' is of the type"):
            conform(batch, pa.schema([("d", KIND)]))
    else:
        made = conform(batch, pa.schema([("d", KIND)]))
        assert made.to_pydict() == {"d": [expected, None, Decimal("2.50")]}
