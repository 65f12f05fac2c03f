"""Checks of a source's options against the first objects, before any is read."""

from contextlib import closing

import pyarrow as pa
import pytest

from tests.support.buckets import json_lines, parquet
from tests.support.streams import NOON
from tidegate import OptionError
from tidegate.errors import ConnectorError, CorruptDataError

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
        ("day=2026-01-31/x.parquet", parquet(ROWS), {"event_time": "column:DAY", "recursive_file_lookup": True}),
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
