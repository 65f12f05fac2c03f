"""Objects that end Arrow's readers, in a real query: the planner, and the workers, outlive them."""

import pyarrow as pa
import pytest

from tests.readers.formats.test_object_damage import WORST
from tests.support.buckets import parquet
from tests.support.streams import NOON, available_now
from tidegate import S3Source

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())])
ENDS = "level-histogram.parquet"


def test_an_object_that_ends_arrows_reader_ends_no_process_of_a_query(spark, bucket, tmp_path):
    [file] = [path for path in WORST if path.name == ENDS]
    bucket.put(ENDS, file.read_bytes())
    bucket.put("sound.parquet", parquet([(1, NOON), (2, NOON + 1)]))

    def source(**fields):
        options = {"columns": SCHEMA, "event_time": "column:at", "bad_event_time": "ignore", **bucket.connection}
        return S3Source(path=bucket.path, **options, **fields)

    with pytest.raises(Exception, match=f"the object {bucket.path}/{ENDS} ends Arrow's reader"):
        source().read(spark).collect()
    stream = source(ignore_corrupt_files=True, state_location=str(tmp_path / "state")).read_stream(spark)
    assert sorted(row["id"] for row in available_now(stream, tmp_path / "checkpoint").all_rows) == [1, 2]
