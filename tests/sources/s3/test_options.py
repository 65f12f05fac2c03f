"""Options of the S3 source: each mistake is one sentence, and some may not change between runs."""

import json
from datetime import timedelta
from typing import get_args

import pyarrow as pa
import pytest

from tests.support.buckets import json_lines
from tests.support.logs import coordinating
from tests.support.streams import HOUR, NOON
from tidegate import OptionError, S3Source, WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import CheckpointError
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, FormatName, formats_with

DISORDER = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"path": "/data/in"}, "expected a path such as s3://bucket/prefix"),
        ({"event_time": "colum:at"}, "did you mean 'column:'"),
        (
            {"file_format": "parket"},
            "'file_format' is 'parket': expected 'parquet', 'json', .* or 'binaryFile'; did you mean 'parquet'",
        ),
        ({"access_key": "only"}, "accessKey and secretKey are set together"),
        ({"event_time_unit": "ms"}, "only a column has a unit"),
        ({"state_location": "s3a://bucket/in/state"}, "lies in the path 's3://bucket/in'"),
        ({"clean_source": "archive"}, "cleanSource is 'archive', but the option 'sourceArchiveDir' is missing"),
        (
            {"source_archive_dir": "s3://bucket/old"},
            "is 's3://bucket/old', which needs cleanSource 'archive', but it is 'off'",
        ),
        ({"clean_source": "delete", "starting_timestamp": 5}, "leaves rows of an object unread"),
        (
            {"endpoint": "127.0.0.1:9000"},
            "'endpoint' is '127.0.0.1:9000': expected a URL, such as http://localhost:9000",
        ),
        ({"endpoint": "http://me:secret@host:9000"}, "'endpoint' is 'http://host:9000': a user or a password in the"),
        ({"watermark_from": "marker:_SUCCESS"}, "has no folder with a time and a marker's name after it"),
        ({"null_value": "-"}, "^nullValue is an option of csv, but fileFormat is 'parquet'$"),
        ({"file_format": "csv", "sep": '"'}, "must differ"),
        ({"file_format": "binaryFile", "event_time": "column:at"}, "binaryFile has times only in modificationTime"),
        (
            {"file_format": "avro", "max_decompressed_bytes": 2**63 - 1},
            "^the option 'max_decompressed_bytes' is 9223372036854775807: expected .* above 0, up to 1099511627776$",
        ),
        (
            {"queue_url": "my-queue"},
            "the option 'queue_url' is 'my-queue': expected the URL of a queue, such as https://",
        ),
        ({"queue_url": "https://me:hid den's@host/q"}, "^the option 'queue_url' is 'https://host/q': a user or a"),
        ({"path": "s3n://id:hid/den@bucket/in"}, "^the option 'path' is 's3n://bucket/in': a login in an address"),
        ({"path": "s3://hidden@bucket/in"}, "^the option 'path' is 's3://bucket/in': a login in an address"),
        ({"path": "s3://host:9000/bucket"}, "'s3://host:9000/bucket': an address of S3 begins with the bucket; set"),
        ({"path": "gs://bucket/mail@2024"}, "^the option 'path' is 'gs://bucket/mail@2024': "),
        ({"backfill_interval": "1 day"}, "backfillInterval is set, but queueUrl is not"),
        ({"starting_timestamp": 1.5}, r"'starting_timestamp' is 1\.5: expected a whole number"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(fields, sentence):
    with pytest.raises(OptionError, match=sentence):
        S3Source(**{"path": "s3://bucket/in", **fields})


@pytest.mark.parametrize("given", [{}, {"fileFormat": "orc"}, {"fileFormat": "text"}])
def test_a_format_without_bad_records_takes_no_option_for_them(given):
    file_format = given.get("fileFormat", "parquet")
    with pytest.raises(OptionError, match=f"^mode is an option of json and csv, but fileFormat is '{file_format}'$"):
        S3Source.from_options({"path": "s3://bucket/in", **given, "mode": "PERMISSIVE"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"mode": "permissive", "badRecordsPath": "bad"},
            "badRecordsPath is set, which leaves bad records out, but",
        ),
        ({"badRecordsPath": "s3://bucket/in/bad"}, "badRecordsPath is 's3://bucket/in/bad', which lies in the path"),
        ({"startingTimestamp": "5", "endingTimestamp": "5"}, "startingTimestamp is not before endingTimestamp"),
        ({"columns": "a,,b"}, "the option 'columns' is 'a,,b': expected names of columns"),
        ({"rescuedDataColumn": ""}, "the option 'rescuedDataColumn' is '': it is empty"),
    ],
)
def test_a_wrong_option_of_spark_is_told_under_its_name(given, sentence):
    with pytest.raises(OptionError, match=sentence):
        S3Source.from_options({"path": "s3://bucket/in", "fileFormat": "json", **given})


@pytest.mark.parametrize(
    ("given", "time_ms"),
    [
        ("1767225600000", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("1972-03-03T00:00:00.042Z", 68_428_800_042),
    ],
)
def test_times_are_given_in_milliseconds_or_iso_8601(given, time_ms):
    made = S3Source.from_options({"path": "s3://bucket/in", "startingTimestamp": given})
    assert made.starting_timestamp == time_ms


@pytest.mark.parametrize("place", ["s3://bucket/in/_state", "s3://bucket/input", "s3://other/in", "/bucket/in"])
def test_a_state_location_that_no_listing_finds_is_taken(place):
    assert S3Source(path="s3://bucket/in", state_location=place).state_location == place


def test_the_names_of_formats_are_those_of_the_registry():
    assert tuple(FORMATS) == get_args(FormatName)


def test_each_option_is_one_of_a_format():
    assert all(map(formats_with, FormatOptions.model_fields))
    for factory in FORMATS.values():
        assert {*factory.options} <= {*FormatOptions.model_fields}
        assert {*factory.split_options, *factory.aliases.values()} <= {*factory.options}


COLUMNS = pa.schema([("id", pa.int64()), ("at", pa.int64())])
CSV = {"file_format": "csv"}


@pytest.fixture
def stream(bucket, source):
    for hour in range(3):
        bucket.put(f"{hour}.json", json_lines([(hour, NOON + hour * HOUR)]))

    def make(**fields):
        known = {"file_format": "json", "event_time": "column:at", "event_time_unit": "ms"}
        return source(columns=COLUMNS, **{**known, **fields})

    return make


def first_batch(source):
    with coordinating(source) as run:
        offset = json.loads(json.dumps(run.latest_offset(INITIAL_OFFSET, Budget(files=1))))
        assert len(run.tasks(INITIAL_OFFSET, offset)) == 1
    return offset


@pytest.mark.parametrize(
    ("first", "then", "sentence"),
    [
        ({}, {"path": "s3://elsewhere/in"}, r"path is 's3://elsewhere/in/', but was 's3://.*/in/' in the runs before"),
        ({}, {"path": "{}/deeper"}, r"path is 's3://.*/in/deeper/', but was 's3://.*/in/' in"),
        ({}, {"path": "{}side"}, r"path is 's3://.*/inside/', but was 's3://.*/in/' in"),
        ({}, {"file_format": "avro"}, "fileFormat is 'avro', but was 'json' in"),
        (
            {},
            {"event_time": "lastModified", "event_time_unit": None},
            "eventTime is 'lastModified', but was 'column:at' in",
        ),
        ({}, {"event_time_unit": "us"}, "eventTimeUnit is 'us', but was 'ms' in"),
        ({"event_time_unit": "us"}, {"event_time_unit": "s"}, "eventTimeUnit is 's', but was 'us' in"),
        (CSV, {**CSV, "multi_line": True}, "multiLine is True, but was False in"),
    ],
)
def test_options_by_which_chunks_were_planned_may_not_change_between_runs(bucket, stream, first, then, sentence):
    if first is CSV:
        for hour in range(3):
            bucket.put(f"{hour}.json", f"{hour},{NOON + hour * HOUR}\n".encode())
    offset = first_batch(stream(**first))
    changed = stream(**{**then, **({"path": then["path"].format(bucket.path)} if "path" in then else {})})
    for ask in (lambda run: run.latest_offset(offset), lambda run: run.tasks(INITIAL_OFFSET, offset)):
        with coordinating(changed) as run, pytest.raises(CheckpointError, match=sentence) as raised:
            ask(run)
        assert bucket.connection["secret_key"] not in str(raised.value)
    with coordinating(stream(**first)) as run:
        assert run.latest_offset(offset) != offset


@pytest.mark.parametrize(
    "then",
    [
        {"path": "s3://{}"},
        {"path_glob_filter": "*.json"},
        {"recursive_file_lookup": True},
        {"allow_overwrites": True},
        {"bad_event_time": "ignore"},
        {"starting_timestamp": NOON},
    ],
)
def test_other_options_may_change_and_nothing_is_read_twice_or_left_out(bucket, stream, then):
    offset = first_batch(stream())
    changed = stream(**{**then, **({"path": then["path"].format(bucket.name)} if "path" in then else {})})
    rows = []
    with coordinating(changed) as run:
        while (end := run.latest_offset(offset)) != offset:
            tasks, offset = run.tasks(offset, end), end
            rows += [n for task in tasks for b in changed.reader(None).read(task) for n in b.column("id").to_pylist()]
    assert sorted(rows) == [1, 2]
