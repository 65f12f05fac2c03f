"""LastModified as the event time of rows without a usable one, in a range of event times; without Spark."""

import bz2
import gzip
from contextlib import closing

import pyarrow as pa
import pytest

from tests.readers.formats.files import avro, orc_file, parquet
from tests.support.streams import HOUR, NOON
from tidegate import S3Source
from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask

GOOD = f'{{"id":1,"at":{NOON}}}\n'
TABLE = pa.table({"id": [1, 2], "at": pa.array([NOON, None], pa.int64())})
# The first row is of NOON, the second has no usable time.
OBJECTS = {
    "malformed.json": GOOD + '{"id":2,"at":',
    "no-object.json": GOOD + "[2]\n",
    "misfit.json": GOOD + '{"id":2,"at":"soon"}\n',
    "null.json": GOOD + '{"id":2}\n',
    "too-large-for-its-column.json": GOOD + '{"id":2,"at":99999999999999999999}\n',
    "malformed.json.gz": gzip.compress((GOOD + "{").encode()),
    "malformed.json.bz2": bz2.compress((GOOD + "{").encode()),
    "short.csv": f"1,{NOON}\n2\n",
    "misfit.csv": f"1,{NOON}\n2,soon\n",
    "too-large-for-its-column.csv": f"1,{NOON}\n2,99999999999999999999\n",
    "lines.csv": f'1,{NOON}\n2,"n\no"\n',
    "short.csv.gz": gzip.compress(f"1,{NOON}\n2\n".encode()),
    "null.parquet": parquet(TABLE),
    "null.orc": orc_file(TABLE),
    "null.avro": avro(TABLE.to_pylist(), id="long", at=["null", "long"]),
}
# That time is in the object, but not in the column that is read.
OTHERS = {
    "text.json": GOOD + f'{{"id":2,"at":"{NOON - HOUR}"}}\n',
    "real.csv": f"1,{NOON}\n2,{NOON - HOUR}.5\n",
}
FIELDS = {"lines.csv": {"multi_line": True}}


@pytest.fixture
def source(bucket):
    def make(key, **fields):
        suffix = key.split(".")[1]
        settings = {"bad_event_time": "record-timestamp", **FIELDS.get(key, {}), **fields}
        if suffix in {"json", "csv"}:
            settings = {"mode": "PERMISSIVE", **settings}
        return S3Source(
            path=bucket.path,
            file_format=suffix,
            columns=pa.schema([("id", pa.int64()), ("at", pa.int64())]),
            event_time="column:at",
            event_time_unit="ms",
            **settings,
            **bucket.connection,
        )

    return make


def rows_of(source):
    """Return how many rows with and without a time are read, and the times for planning."""
    with closing(source.enumerator(None)) as enumerator:
        counts, times = [0, 0], []
        for split in enumerator.discover():
            everything = SplitRange(split, 0, enumerator.extents([split])[split].end)
            chunks = enumerator.details(everything)
            times += [(chunk.min_ms, chunk.max_ms) for chunk in chunks]
            for batch in source.reader(None).read(ReadTask((everything,), (chunks,))):
                without = batch.column("at").null_count
                counts = [counts[0] + batch.num_rows - without, counts[1] + without]
        return counts, times


@pytest.mark.parametrize("key", [*OBJECTS, *OTHERS])
def test_a_row_without_a_usable_time_is_read_where_last_modified_is_in_the_range(bucket, source, key):
    bucket.put(key, (OBJECTS | OTHERS)[key])
    head = bucket.client.head_object(Bucket=bucket.name, Key=f"in/{key}")
    now = int(head["LastModified"].timestamp() * 1000)
    if key in OBJECTS:
        assert rows_of(source(key)) == ([1, 1], [(NOON, now)])
    assert rows_of(source(key, starting_timestamp=NOON + 1)) == ([0, 1], [(NOON + 1, now)])
    assert rows_of(source(key, starting_timestamp=now)) == ([0, 1], [(now, now)])
    assert rows_of(source(key, ending_timestamp=now)) == ([1, 0], [(NOON, now - 1)])
    assert rows_of(source(key, ending_timestamp=NOON)) == ([0, 0], [])
    assert rows_of(source(key, starting_timestamp=now + HOUR)) == ([0, 0], [])


@pytest.mark.parametrize("key", ["malformed.json", "malformed.json.gz"])
@pytest.mark.parametrize(
    "fields", [{"mode": "DROPMALFORMED"}, {"bad_event_time": "ignore"}, {"bad_event_time": "fail"}]
)
def test_a_malformed_line_that_no_time_stands_in_for_widens_no_range(bucket, source, key, fields):
    bucket.put(key, OBJECTS[key])
    made = source(key, **fields)
    expected = [1, 0] if "mode" in fields else [1, 1]
    assert rows_of(made) == (expected, [(NOON, NOON)])
    assert rows_of(made.model_copy(update={"starting_timestamp": NOON + 1})) == ([0, 0], [])


@pytest.mark.parametrize("unit", [None, "s"])
def test_json_numbers_are_seconds_in_a_column_of_timestamps(bucket, source, unit):
    bucket.put("a.json", f'{{"id":1,"at":{NOON // 1000}}}\n')
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    made = source("a.json", mode="FAILFAST").model_copy(update={"columns": schema, "event_time_unit": unit})
    inside = made.model_copy(update={"starting_timestamp": NOON}).as_batch()
    assert rows_of(inside) == ([1, 0], [(NOON, NOON)])
    assert rows_of(made.model_copy(update={"ending_timestamp": NOON}).as_batch()) == ([0, 0], [])


@pytest.mark.parametrize("columns", [["id", "day"], ["id"]])
def test_a_folder_gives_the_event_time_of_rows_that_hold_none(bucket, source, columns):
    for day in ("2026-01-01", "2026-01-02"):
        bucket.put(f"day={day}/a.json", '{"id":1,"at":5}\n')
    schema = pa.schema([(name, pa.date32() if name == "day" else pa.int64()) for name in ["at", *columns]])
    fields = {"columns": schema, "event_time": "column:day", "event_time_unit": None, "bad_event_time": "fail"}
    made = source("a.json").model_copy(update=fields)
    new_year = 1_767_225_600_000
    assert rows_of(made)[1] == [(new_year, new_year), (new_year + 24 * HOUR, new_year + 24 * HOUR)]
    if "day" in columns:
        first = made.model_copy(update={"ending_timestamp": new_year + 1}).as_batch()
        assert rows_of(first)[1] == [(new_year, new_year)]
