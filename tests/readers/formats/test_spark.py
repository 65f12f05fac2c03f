"""Objects that Spark wrote have the schema, the values and the times that Spark's own reader gives."""

from __future__ import annotations

from datetime import datetime

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.formats.contract import CASES
from tests.support.objects.lab import InMemory, read
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

SPARKS_AVRO = "org.apache.spark.sql.avro.AvroFileFormat"
FIRST_MS = 1_709_209_801_123
YEAR_1_MS = int((datetime(1, 1, 1) - datetime(1970, 1, 1)).total_seconds() * 1000)  # noqa: DTZ001
ROWS = """
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
        ("parquet", "parquet", ["none", "snappy", "zstd", "gzip", "lz4"]),
        ("orc", "orc", ["none", "zlib", "snappy", "lz4", "zstd"]),
        ("avro", SPARKS_AVRO, ["uncompressed", "deflate", "snappy", "zstandard", "bzip2", "xz"]),
    ],
)
def test_what_spark_wrote_is_what_spark_reads(spark, tmp_path, name, source, codecs) -> None:
    frame = spark.sql(ROWS).coalesce(1)
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
