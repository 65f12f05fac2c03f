"""Where objects have their event times: first objects that have none, and what stands in for a missing one."""

import bz2
import gzip
from contextlib import closing

import pyarrow as pa
import pytest

from tests.readers.formats import files
from tests.readers.formats.files import avro, orc_file
from tests.support.buckets import json_lines, parquet
from tests.support.streams import HOUR, NOON
from tidegate import OptionError, S3Source
from tidegate.alignment.splits import SplitRange
from tidegate.errors import ConnectorError, CorruptDataError
from tidegate.readers.contract import ReadTask

ROWS = [(1, NOON), (2, NOON + 1)]
GIVEN = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
NESTED = b'{"a":{"b":"2026-01-31T00:00:00Z","c":1}}\n'


CSV = {"file_format": "csv", "event_time_unit": "ms"}
JSON = {"file_format": "json", "event_time_unit": "ms"}
MISTAKEN = [
    (
        "x.parquet",
        parquet(ROWS),
        {"event_time": "column:att"},
        r"no column 'att' among 'id', 'at'; did you mean 'at'\?",
    ),
    ("x.json", json_lines(ROWS), {**JSON, "event_time": "column:att"}, r"'att' among .*; did you mean 'at'\?"),
    ("x.csv", b"1,5\n", {**CSV, "event_time": "column:at"}, r"there is no column 'at' among '_c0', '_c1'"),
    (
        "x.csv",
        b"id,at\n1,5\n",
        {**CSV, "header": True, "event_time": "column:time"},
        r"no column 'time' among 'id', 'at'",
    ),
    ("x.json", NESTED, {"file_format": "json", "event_time": "column:a.bb"}, r"among 'a', 'a.b', 'a.c'; .* 'a\.b'\?"),
    ("day=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "column:dy"}, r"'at', 'day'; did you mean 'day'\?"),
    (
        "day=2026-01-31/x.parquet",
        parquet(ROWS),
        {"event_time": "column:day", "recursive_file_lookup": True},
        r"there is no column 'day' among 'id', 'at'",
    ),
    (
        "d=2026-01-31/x.parquet",
        parquet(ROWS),
        {"event_time": "path:dt={yyyy-MM-dd}"},
        r"'path:dt=.*', but none of the first 1 objects names such a time, such as 'in/d=2026-01-31/x.parquet'",
    ),
]


@pytest.mark.parametrize(("key", "body", "fields", "sentence"), MISTAKEN)
def test_an_event_time_that_no_object_has_is_refused_when_columns_are_inferred(
    bucket, source, key, body, fields, sentence
):
    bucket.put(key, body)
    with pytest.raises(OptionError, match=sentence):
        _ = source(**fields).arrow_schema
    assert source(**fields, bad_event_time="ignore").arrow_schema.names


@pytest.mark.parametrize("mistaken", [MISTAKEN[0], MISTAKEN[1], MISTAKEN[-1]])
def test_an_event_time_that_no_object_has_ends_the_query_with_a_given_schema(bucket, source, mistaken):
    key, body, fields, _ = mistaken
    bucket.put(key, body)
    batch = source(**fields, columns=GIVEN).as_batch()
    refused = pytest.raises(CorruptDataError, match=f"object 'in/{key}' has no usable event time in (the column|its p)")
    with closing(batch.enumerator(None)) as enumerator, refused:
        enumerator.discover()


@pytest.mark.parametrize(
    ("key", "body", "fields"),
    [
        ("x.json", NESTED, {"file_format": "json", "event_time": "column:a.b", "event_time_unit": "iso8601"}),
        ("day=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "column:day"}),
        ("x.parquet", parquet(ROWS), {"event_time": "column:AT"}),
        ("dt=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "path:dt={yyyy-MM-dd}"}),
    ],
)
def test_event_times_within_columns_and_of_folders_are_found(bucket, source, key, body, fields):
    bucket.put(key, body)
    assert source(**fields).arrow_schema.names


def test_an_object_that_cannot_be_read_in_the_default_format_names_that_format(bucket, source):
    bucket.put("x.json", NESTED)
    with pytest.raises(CorruptDataError, match=r"Parquet does; fileFormat is not set, and its default is parquet$"):
        _ = source().arrow_schema
    with pytest.raises(CorruptDataError, match=r"Parquet does$"):
        _ = source(file_format="parquet").arrow_schema


@pytest.mark.parametrize("fields", [{}, {"state_location": None}])
def test_a_refused_login_is_told_without_advice_about_other_options(source, fields):
    wrong = {"secret_key": "of somebody else", **fields}
    with pytest.raises(
        ConnectorError, match=r"^the endpoint refused to list .*; look at secretKey, or where boto3 .*$"
    ):
        _ = source(**wrong).arrow_schema


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"path": "{}/*.parquet"}, r"; a path takes no pattern: give the folder, and .* as pathGlobFilter"),
        ({"path": "{}/x.parquet"}, r": the path names an object; give its folder, and its name as pathGlobFilter"),
        ({"path_glob_filter": "*.json"}, r"/in/x\.parquet is left out, because its name does not match pathGlobFilter"),
        (
            {"modified_after": "2999-01-01"},
            r"/in/x\.parquet is left out, because its LastModified is not after modifiedAfter",
        ),
        ({"modified_before": "2001-01-01"}, r"left out, because its LastModified is not before modifiedBefore"),
        (
            {"path": "s3://{name}"},
            r"/in/ is left out, because its folder 'in' is not entered without recursiveFileLookup",
        ),
    ],
)
def test_what_left_out_all_objects_is_named(bucket, source, fields, sentence):
    bucket.put_rows("x.parquet", ROWS)
    if "path" in fields:
        fields = {**fields, "path": fields["path"].format(bucket.path, name=bucket.name)}
    with pytest.raises(OptionError, match=rf"^there is no object with bytes under s3://.*{sentence}"):
        _ = source(**fields).arrow_schema


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
    "null.parquet": files.parquet(TABLE),
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
def untimed(bucket):
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
def test_a_row_without_a_usable_time_is_read_where_last_modified_is_in_the_range(bucket, untimed, key):
    bucket.put(key, (OBJECTS | OTHERS)[key])
    head = bucket.client.head_object(Bucket=bucket.name, Key=f"in/{key}")
    now = int(head["LastModified"].timestamp() * 1000)
    if key in OBJECTS:
        assert rows_of(untimed(key)) == ([1, 1], [(NOON, now)])
    assert rows_of(untimed(key, starting_timestamp=NOON + 1)) == ([0, 1], [(NOON + 1, now)])
    assert rows_of(untimed(key, starting_timestamp=now)) == ([0, 1], [(now, now)])
    assert rows_of(untimed(key, ending_timestamp=now)) == ([1, 0], [(NOON, now - 1)])
    assert rows_of(untimed(key, ending_timestamp=NOON)) == ([0, 0], [])
    assert rows_of(untimed(key, starting_timestamp=now + HOUR)) == ([0, 0], [])


@pytest.mark.parametrize("key", ["malformed.json", "malformed.json.gz"])
@pytest.mark.parametrize(
    "fields", [{"mode": "DROPMALFORMED"}, {"bad_event_time": "ignore"}, {"bad_event_time": "fail"}]
)
def test_a_malformed_line_that_no_time_stands_in_for_widens_no_range(bucket, untimed, key, fields):
    bucket.put(key, OBJECTS[key])
    made = untimed(key, **fields)
    expected = [1, 0] if "mode" in fields else [1, 1]
    assert rows_of(made) == (expected, [(NOON, NOON)])
    assert rows_of(made.model_copy(update={"starting_timestamp": NOON + 1})) == ([0, 0], [])


@pytest.mark.parametrize("unit", [None, "s"])
def test_json_numbers_are_seconds_in_a_column_of_timestamps(bucket, untimed, unit):
    bucket.put("a.json", f'{{"id":1,"at":{NOON // 1000}}}\n')
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    made = untimed("a.json", mode="FAILFAST").model_copy(update={"columns": schema, "event_time_unit": unit})
    inside = made.model_copy(update={"starting_timestamp": NOON}).as_batch()
    assert rows_of(inside) == ([1, 0], [(NOON, NOON)])
    assert rows_of(made.model_copy(update={"ending_timestamp": NOON}).as_batch()) == ([0, 0], [])


@pytest.mark.parametrize("columns", [["id", "day"], ["id"]])
def test_a_folder_gives_the_event_time_of_rows_that_hold_none(bucket, untimed, columns):
    for day in ("2026-01-01", "2026-01-02"):
        bucket.put(f"day={day}/a.json", '{"id":1,"at":5}\n')
    schema = pa.schema([(name, pa.date32() if name == "day" else pa.int64()) for name in ["at", *columns]])
    fields = {"columns": schema, "event_time": "column:day", "event_time_unit": None, "bad_event_time": "fail"}
    made = untimed("a.json").model_copy(update=fields)
    new_year = 1_767_225_600_000
    assert rows_of(made)[1] == [(new_year, new_year), (new_year + 24 * HOUR, new_year + 24 * HOUR)]
    if "day" in columns:
        first = made.model_copy(update={"ending_timestamp": new_year + 1}).as_batch()
        assert rows_of(first)[1] == [(new_year, new_year)]
