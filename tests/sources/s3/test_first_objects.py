"""Checks of a source's options against the first objects, before any is read."""

import logging

import pyarrow as pa
import pytest

from tests.support.buckets import json_lines, parquet
from tests.support.streams import NOON
from tidegate import OptionError, S3Source
from tidegate.errors import ConnectorError, CorruptDataError

ROWS = [(1, NOON), (2, NOON + 1)]
GIVEN = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
NESTED = b'{"a":{"b":"2026-01-31T00:00:00Z","c":1}}\n'


@pytest.fixture
def source(bucket, tmp_path):
    def make(**fields):
        return S3Source(**{"path": bucket.path, "state_location": str(tmp_path), **bucket.connection, **fields})

    return make


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "tidegate.planner")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


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


@pytest.mark.parametrize("begin", [S3Source.as_batch, S3Source.as_stream])
@pytest.mark.parametrize("mistaken", [MISTAKEN[0], MISTAKEN[1], MISTAKEN[-1]])
def test_an_event_time_that_no_object_has_is_refused_with_a_given_schema(bucket, source, begin, mistaken):
    key, body, fields, sentence = mistaken
    bucket.put(key, body)
    with pytest.raises(OptionError, match=sentence):
        begin(source(**fields, columns=GIVEN))


def test_columns_of_csv_without_a_header_are_those_of_the_given_schema(bucket, source):
    bucket.put("x.csv", b"1,5\n")
    given = {**CSV, "columns": pa.schema([("id", pa.int64()), ("at", pa.int64())])}
    source(**given, event_time="column:at").as_batch()
    with pytest.raises(OptionError, match=r"no column 'att' among 'id', 'at'; did you mean 'at'\?"):
        source(**given, event_time="column:att").as_batch()


@pytest.mark.parametrize(
    ("key", "body", "fields"),
    [
        ("x.json", NESTED, {"file_format": "json", "event_time": "column:a.b", "event_time_unit": "iso8601"}),
        ("day=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "column:day"}),
        ("day=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "column:DAY", "recursive_file_lookup": True}),
        ("x.parquet", parquet(ROWS), {"event_time": "column:AT"}),
        ("dt=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "path:dt={yyyy-MM-dd}"}),
    ],
)
def test_event_times_within_columns_and_of_folders_are_found(bucket, source, warnings, key, body, fields):
    bucket.put(key, body)
    made = source(**fields)
    made.model_copy(update={"columns": made.arrow_schema}).as_batch()
    assert warnings() == []


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


@pytest.mark.parametrize("key", ["x.parquet", "x.json"])
@pytest.mark.parametrize("begin", [S3Source.as_batch, S3Source.as_stream])
def test_columns_that_none_of_the_first_objects_has_are_warned_of_once(bucket, source, warnings, key, begin):
    for number in range(3):
        bucket.put_rows(f"day=2026-01-31/{number}{key}", ROWS)
    file_format = key.rpartition(".")[2]
    given = pa.schema([("ID", pa.int64()), ("day", pa.string()), ("name", pa.string()), ("sum", pa.int64())])
    begin(source(file_format=file_format, columns=given))
    [warning] = warnings()
    assert warning.endswith(f"first 3 objects under {bucket.path} has, so they are null: 'name', 'sum'")


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
def test_what_left_out_all_objects_is_named(bucket, source, warnings, fields, sentence):
    bucket.put_rows("x.parquet", ROWS)
    if "path" in fields:
        fields = {**fields, "path": fields["path"].format(bucket.path, name=bucket.name)}
    with pytest.raises(OptionError, match=rf"^there is no object with bytes under s3://.*{sentence}"):
        _ = source(**fields).arrow_schema
    source(**fields, columns=GIVEN).as_batch()
    [warning] = warnings()
    assert warning.startswith("there is no object with bytes under s3://")
