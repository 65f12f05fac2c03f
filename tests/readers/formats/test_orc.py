"""ORC objects, compared with those that pyarrow and Spark read from the same bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.readers.formats.files import orc_file, orc_format
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import CorruptDataError
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, Reading
from tidegate.readers.objects.values import ChunkSurvey, TimeRange


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
