"""Options that change between the runs of a stream: those that planned the waiting objects may not change."""

import json

import pyarrow as pa
import pytest

from tests.support.buckets import json_lines
from tests.support.logs import coordinating
from tests.support.streams import HOUR, NOON
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import CheckpointError

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
        {"path": "s3a://{}/in/"},
        {"path_glob_filter": "*.json"},
        {"recursive_file_lookup": True},
        {"modified_after": "2001-01-01"},
        {"allow_overwrites": True},
        {"mode": "PERMISSIVE"},
        {"bad_event_time": "ignore"},
        {"starting_timestamp": NOON},
        {"max_files_per_trigger": 7},
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
