"""Keys of windows are equal, and have equal bytes, where Spark groups them together."""

import pickle

import pyarrow as pa

from tidegate.windows.spark.keys import values_of


def test_the_bytes_of_a_key_are_the_same_whichever_time_zones_pyarrow_takes():
    columns = [pa.chunked_array([pa.array([0, None], pa.timestamp("us", zone))]) for zone in ("UTC", "+00:00")]
    assert len({pickle.dumps(values_of(column)) for column in columns}) == 1
    assert values_of(columns[0])[0].isoformat() == "1970-01-01T00:00:00+00:00"
