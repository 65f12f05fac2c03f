"""ORC objects, compared with those that pyarrow and Spark read from the same bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.readers.formats.files import orc_file
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import CorruptDataError
from tidegate.readers.formats.orc.format import OrcFormat
from tidegate.readers.objects.values import ChunkSurvey, TimeRange


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")])
@pytest.mark.parametrize("pair", [(-1, 1), (-999_999, -2), (-1_000_000, -999_999), (-1_000_001, -1), (0, 999_998)])
def test_times_before_1970_are_rounded_down_as_those_of_the_rows_are(kind, pair) -> None:
    store = InMemory(orc_file(pa.table({"at": pa.array(pair, kind)})))
    (piece,) = OrcFormat(store).survey(store.listed(), "at")
    assert piece.times == TimeRange(pair[0] // 10**6, pair[1] // 10**6)


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
