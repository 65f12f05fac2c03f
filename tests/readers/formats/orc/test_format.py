"""ORC objects, compared with those that pyarrow and Spark read from the same bytes."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.formats.files import orc_file
from tests.support.objects.lab import InMemory, held, laid, read
from tidegate.errors import CorruptDataError
from tidegate.readers.formats.orc.format import OrcFormat
from tidegate.readers.objects.values import ChunkSurvey, TimeRange


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")])
@pytest.mark.parametrize("pair", [(-1, 1), (-999_999, -2), (-1_000_000, -999_999), (-1_000_001, -1), (0, 999_998)])
def test_times_before_1970_are_rounded_down_as_those_of_the_rows_are(store, folder, kind, pair) -> None:
    obj = laid(folder, orc_file(pa.table({"at": pa.array(pair, kind)})))
    (piece,) = OrcFormat(store).survey(obj, "at")
    assert piece.times == TimeRange(pair[0] // 10**6, pair[1] // 10**6)


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
