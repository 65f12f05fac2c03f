"""ORC objects, compared with those that pyarrow and Spark read from the same bytes."""

from __future__ import annotations

import itertools
from datetime import datetime
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.formats.orc.files import orc_file
from tests.support.objects.lab import InMemory, chunk, held, laid, read
from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.arrow.conform import spark_schema
from tidegate.readers.formats.orc.format import OrcFormat
from tidegate.readers.objects.values import ChunkSurvey, S3Object, TimeRange
from tidegate.readers.s3.store import SMALL_BYTES

UTC_US = pa.timestamp("us", "UTC")


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")])
@pytest.mark.parametrize("pair", [(-1, 1), (-999_999, -2), (-1_000_000, -999_999), (-1_000_001, -1), (0, 999_998)])
def test_times_before_1970_are_rounded_down_as_those_of_the_rows_are(store, folder, kind, pair) -> None:
    obj = laid(folder, orc_file(pa.table({"at": pa.array(pair, kind)})))
    (piece,) = OrcFormat(store).survey(obj, "at")
    assert piece.times == TimeRange(pair[0] // 10**6, pair[1] // 10**6)


@pytest.fixture(scope="module")
def large(folder) -> tuple[S3Object, pa.Table]:
    """An object of more than SMALL_BYTES, with several stripes."""
    random = np.random.default_rng(7)
    rows = 1_200_000
    table = pa.table(
        {"at": pa.array(np.arange(rows) * 1000, UTC_US), "x": random.random(rows), "y": random.random(rows)}
    )
    obj = laid(folder, orc_file(table, stripe_size=8 << 20, batch_size=50_000))
    assert obj.size > 2 * SMALL_BYTES
    return obj, table


def test_only_the_columns_asked_for_are_fetched_of_a_large_object(store, large) -> None:
    obj, table = large
    made = OrcFormat(store)
    schema = spark_schema(table.schema)
    assert read(made, obj, pa.schema([schema.field("y")])).column("y").equals(table.column("y"))
    assert sum(end - start for start, end in store.asked) < obj.size / 1.8
    assert max(end - start for start, end in store.asked) <= SMALL_BYTES
    store.asked.clear()
    surveys = OrcFormat(store, chunk_bytes=1).survey(obj, "at")
    assert sum(end - start for start, end in store.asked) < obj.size / 1.8
    assert len(surveys) > 2
    starts = np.cumsum([0, *(survey.rows for survey in surveys)]).tolist()
    assert [survey.times for survey in surveys] == [TimeRange(a, b - 1) for a, b in itertools.pairwise(starts)]
    store.asked.clear()
    assert read(made, obj, schema, surveys[1].start, surveys[1].end).num_rows == surveys[1].rows
    assert sum(end - start for start, end in store.asked) < surveys[1].end - surveys[1].start + (128 << 10)


def test_a_stripe_too_large_to_be_held_is_fetched_bit_by_bit(store, large) -> None:
    obj, table = large
    with mock.patch.multiple("tidegate.readers.formats.orc.format", HELD_BYTES=1 << 20):
        made = read(OrcFormat(store), obj, spark_schema(table.schema))
    assert made.column("x").equals(table.column("x"))
    assert max(end - start for start, end in store.asked) < 1 << 20


def test_an_object_overwritten_while_it_is_read_is_gone(config, store, folder, large) -> None:
    client = config.client()
    obj, table = large
    content = (folder / obj.key).read_bytes()
    etag = client.put_object(Bucket="data", Key="during.orc", Body=content)["ETag"].strip('"')
    batches = OrcFormat(store).read(chunk(S3Object("during.orc", len(content), etag, 0)), spark_schema(table.schema))
    with mock.patch.multiple("tidegate.readers.formats.orc.format", HELD_BYTES=0):
        next(batches)
        client.put_object(Bucket="data", Key="during.orc", Body=b"x" * len(content))
        with pytest.raises(ObjectGoneError, match=r"^s3://data/during.orc was overwritten after it was found$"):
            list(batches)


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
        made, obj = OrcFormat(InMemory(content)), held(content)
        read_by_spark = spark.read.orc(str(path))
        schema = made.infer([obj])
        assert StructType.fromJson(from_arrow_schema(schema).jsonValue()) == read_by_spark.schema
        assert read(made, obj, schema).to_pylist() == read_by_spark.toArrow().to_pylist()
        assert made.survey(obj, "at") == [
            ChunkSurvey(0, obj.size, 201, TimeRange(1_709_209_801_123, 1_709_209_801_322), 1)
        ]
        first = int((datetime(1, 1, 1) - datetime(1970, 1, 1)).total_seconds() * 1000)  # noqa: DTZ001
        assert made.survey(obj, "ntz")[0].times == TimeRange(first + 500, first + 500)
        assert made.survey(obj, "day")[0].times.min_ms == first


@pytest.fixture
def jvm_zone(spark):
    """Return the function that sets the zone in which Spark writes and reads timestamps of ORC."""
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    yield lambda name: zones.setDefault(zones.getTimeZone(name))
    zones.setDefault(before)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_timestamps_are_instants_whatever_the_zone_of_the_writer(spark, jvm_zone, tmp_path, zone) -> None:
    jvm_zone(zone)
    first = 1_729_987_200_000  # 2024-10-27 00:00 UTC; clocks in Berlin show an hour twice after it
    hours = spark.range(10).selectExpr(
        f"timestamp_millis({first} + id * 1800000 + 1) at",
        "array(timestamp_micros((id - 5) * 3600000000 + 1500), null) near_1970",
    )
    hours.coalesce(1).write.orc(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.orc")
    content = path.read_bytes()
    made, obj = OrcFormat(InMemory(content)), held(content)
    assert read(made, obj, made.infer([obj])).to_pylist() == spark.read.orc(str(path)).toArrow().to_pylist()
    assert made.survey(obj, "at") == [ChunkSurvey(0, obj.size, 10, TimeRange(first + 1, first + 9 * 1_800_000 + 1))]


def test_times_beyond_nanoseconds_are_reported_and_do_not_hinder_other_columns(spark, tmp_path) -> None:
    spark.sql("select 1 id, timestamp'9999-12-31' until").write.orc(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.orc")
    content = path.read_bytes()
    made, obj = OrcFormat(InMemory(content)), held(content)
    assert read(made, obj, pa.schema([("id", pa.int32())])).to_pylist() == [{"id": 1}]
    sentence = "^s3://data/x cannot be read: the column 'until' has times beyond the years 1678 to 2261$"
    for look in (lambda: read(made, obj, made.infer([obj])), lambda: made.survey(obj, "until")):
        with pytest.raises(CorruptDataError, match=sentence):
            look()
