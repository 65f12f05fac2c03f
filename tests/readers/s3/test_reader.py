"""The reader of the S3 connector: many small objects give few batches, in order."""

import json
from datetime import date, datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.splits import SplitRange
from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, ObjectGoneError
from tidegate.readers.contract import ReadTask
from tidegate.readers.event_time.columns import EventTimeRange, RowTimes
from tidegate.readers.objects.partitions import METADATA
from tidegate.readers.objects.values import Chunk, ObjectFormat
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.reader import S3SplitReader
from tidegate.readers.s3.store import ObjectStore

ENOUGH = 1 << 20
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
EMPTY = pa.schema([])
STORE = ObjectStore(S3ConnectionConfig(), "bucket")


class Made(ObjectFormat):
    """A format with given objects: the batches of each key, perhaps with an error after them."""

    def __init__(self, objects):
        self.objects = objects

    def infer(self, samples):
        raise AssertionError("a reader is told the columns")

    def survey(self, obj, column):
        raise AssertionError("a reader is told the chunks")

    def read(self, chunk, schema, set_aside=None):
        self.asked = schema
        for step in self.objects[chunk.key]:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, dict):
                set_aside(step)
            else:
                yield step


def read(objects, schema=SCHEMA, **options):
    # The objects are empty, so that nothing is fetched ahead.
    chunks = tuple(Chunk(key, 0, "", 0, 0, 0, 0, None, None) for key in objects)
    middle = len(chunks) // 2
    task = ReadTask(
        (SplitRange("a", 0, middle), SplitRange("b", middle, len(chunks))), (chunks[:middle], chunks[middle:])
    )
    return [*S3SplitReader(Made(objects), STORE, schema, **options).read(task)]


def batch(begin, rows, width):
    return pa.record_batch([pa.array(range(begin, begin + rows), pa.int64()), ["x" * width] * rows], schema=SCHEMA)


@given(st.lists(st.lists(st.tuples(st.integers(1, 400), st.sampled_from([1, 100, 6_000])), max_size=4), max_size=8))
def test_the_rows_stay_in_order_and_all_batches_but_the_last_have_enough_bytes(shapes):
    objects, count = {}, 0
    for number, shape in enumerate(shapes):
        objects[str(number)] = []
        for rows, width in shape:
            objects[str(number)].append(batch(count, rows, width))
            count += rows
    batches = read(objects)
    assert [n for part in batches for n in part.column(0).to_pylist()] == list(range(count))
    assert all(part.nbytes > ENOUGH * 0.9 for part in batches[:-1])
    assert all(part.schema.equals(SCHEMA) for part in batches)


class Together(Made):
    """A format that reads objects together, unless one of them is an error."""

    def __init__(self, objects):
        super().__init__(objects)
        self.groups = []

    def read_together(self, chunks, schema):
        self.groups.append([chunk.key for chunk in chunks])
        self.asked = schema
        batches = [batch for chunk in chunks for batch in self.objects[chunk.key]]
        error = next((step for step in batches if isinstance(step, Exception)), None)
        if isinstance(error, ObjectGoneError):
            raise error
        return None if error else batches


def read_together(objects, size=300_000, schema=SCHEMA, **options):
    made = Together(objects)
    # The objects are large, so that nothing is fetched ahead.
    chunks = tuple(Chunk(key, 2**40, "", 0, 0, size, 0, None, None) for key in objects)
    reader = S3SplitReader(made, STORE, schema, prefix="in/", **options)
    batches = [*reader.read(ReadTask((SplitRange("a", 0, len(chunks)),), (chunks,)))]
    return made.groups, [row for part in batches for row in part.to_pylist()]


def test_neighbours_are_read_together_up_to_the_size_of_a_batch():
    objects = {f"{number}": [batch(number, 1, 1)] for number in range(7)}
    groups, rows = read_together(objects)
    assert groups == [["0", "1", "2"], ["3", "4", "5"]]
    assert [row["id"] for row in rows] == list(range(7))


def test_what_is_read_together_has_the_same_columns_of_its_folders():
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    keys = ("in/day=1970-01-02/a", "in/day=1970-01-02/b", "in/day=1970-01-03/a", "in/day=1970-01-03/b")
    objects = {key: [pa.record_batch({"id": [number]})] for number, key in enumerate(keys)}
    groups, rows = read_together(objects, 1, schema)
    assert groups == [[*keys[:2]], [*keys[2:]]]
    assert [(row["id"], row["day"].day) for row in rows] == [(0, 2), (1, 2), (2, 3), (3, 3)]


def test_rows_that_are_distinguished_by_their_objects_are_not_read_together():
    objects = {key: [batch(0, 1, 1)] for key in "ab"}
    assert read_together(objects, 1, times=RowTimes(EventTimeRange(0, 5), "id", "ms"))[0] == []
    assert read_together(objects, 1, SCHEMA.append(METADATA), metadata=True)[0] == []


@pytest.mark.parametrize(
    ("error", "option"),
    [(CorruptDataError("broken"), "ignoreCorruptFiles"), (ObjectGoneError("gone"), "ignoreMissingFiles")],
)
def test_after_an_object_that_cannot_be_read_together_each_of_the_task_is_read_by_itself(error, option, caplog):
    objects = {f"{number}": [batch(number, 1, 1)] for number in range(9)}
    objects["4"].append(error)
    groups, rows = read_together(objects, ignore_missing=True, ignore_corrupt=True)
    assert groups == [["0", "1", "2"], ["3", "4", "5"]]
    assert [row["id"] for row in rows] == list(range(9))
    assert caplog.messages == [f"left out: {error}"]
    with pytest.raises(type(error), match=f"^{error}; set {option} to true to go on without it$"):
        read_together(objects)


def test_a_bad_record_that_ends_the_query_is_no_corrupt_object_to_skip():
    with pytest.raises(BadRecordError, match=r"^a has no BIGINT$"):
        read({"a": [BadRecordError("a has no BIGINT")]}, ignore_corrupt=True)


def test_rows_without_columns_keep_their_number():
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert sum(part.num_rows for part in read({"a": [rows], "b": [rows]}, EMPTY)) == 6


def test_what_precedes_an_error_that_is_skipped_is_not_lost():
    objects = {
        "a": [batch(0, 3, 1), CorruptDataError("broken")],
        "b": [ObjectGoneError("gone")],
        "d": [batch(3, 1, 1), ObjectGoneError("other", overwritten=True)],
        "c": [batch(4, 3, 1)],
    }
    [left] = read(objects, ignore_missing=True, ignore_overwritten=True, ignore_corrupt=True)
    assert left.column(0).to_pylist() == list(range(7))


@pytest.mark.parametrize(
    ("overwritten", "remedy"), [(True, "set allowOverwrites to true"), (False, "set ignoreMissingFiles to true")]
)
def test_what_is_deleted_and_what_is_overwritten_are_skipped_each_by_its_own_option(overwritten, remedy, caplog):
    objects = {"a": [ObjectGoneError("s3://b/a is another", overwritten=overwritten)]}
    options = {"ignore_missing": overwritten, "ignore_overwritten": not overwritten}
    with pytest.raises(ObjectGoneError, match=f"^s3://b/a is another; {remedy}") as error:
        read(objects, **options)
    assert error.value.overwritten == overwritten
    assert read(objects, **{option: not value for option, value in options.items()}) == []
    assert "left out: s3://b/a is another" in caplog.text


def test_columns_of_the_path_and_the_metadata_are_no_business_of_the_format():
    schema = pa.schema([("day", pa.date32()), ("ID", pa.int64()), METADATA, ("n", pa.string()), ("text", pa.string())])
    made = Made(dict.fromkeys(("x=1/in/DAY=2026-01-31/n=__HIVE_DEFAULT_PARTITION__/a", "x=1/in/b")))
    reader = S3SplitReader(made, STORE, schema, prefix="x=1/in/", metadata=True)
    read_rows, asked = [], []
    for key in made.objects:
        chunk = Chunk(key, 9, "", 86_400_000, 3, 7, 2, None, None)
        data = [name for name in schema.names if name not in ("_metadata", *(("day", "n") if "DAY" in key else ()))]
        rows = [{}, {}]
        made.objects[key] = [pa.RecordBatch.from_pylist(rows, pa.schema([schema.field(name) for name in data]))]
        for part in reader.read(ReadTask((SplitRange("a", 0, 1),), ((chunk,),))):
            assert part.schema.equals(schema)
            read_rows += part.to_pylist()
        asked.append(made.asked.names)
    assert asked == [["ID", "text"], ["day", "ID", "n", "text"]]
    assert [(row["day"], row["n"]) for row in read_rows] == [(date(2026, 1, 31), None)] * 2 + [(None, None)] * 2
    assert read_rows[0]["_metadata"] == {
        "file_path": "s3://bucket/x=1/in/DAY=2026-01-31/n=__HIVE_DEFAULT_PARTITION__/a",
        "file_name": "a",
        "file_size": 9,
        "file_block_start": 3,
        "file_block_length": 4,
        "file_modification_time": datetime(1970, 1, 2, tzinfo=timezone.utc),
    }


def test_rows_are_kept_by_a_time_that_a_folder_names():
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    rows = pa.record_batch({"id": [1, 2]})
    objects = {"in/day=1970-01-02/a": [rows], "in/day=1970-01-03/a": [rows]}
    times = RowTimes(EventTimeRange(2 * 86_400_000, None), "day")
    [kept] = read(objects, schema, prefix="in/", times=times)
    assert kept.to_pylist() == [{"id": 1, "day": date(1970, 1, 3)}, {"id": 2, "day": date(1970, 1, 3)}]


def test_a_folder_whose_value_is_not_of_its_type_is_no_corrupt_object_to_skip():
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    with pytest.raises(CorruptDataError, match=r"in/day=soon/a: its path has no DATE in 'day'"):
        read({"in/day=soon/a": []}, schema, prefix="in/", ignore_corrupt=True)


def test_bad_records_are_written_also_when_the_rest_of_the_object_is_corrupt():
    written = {}
    for error in (ConnectorError("no answer"), CorruptDataError("the rest")):  # the first one repeats the task
        assert written == {}
        with pytest.raises(type(error)):
            read({"a": [{"n": 1}, error]}, write_bad_records=written.__setitem__)
    [data] = written.values()
    assert json.loads(data) == {"n": 1}


def test_each_version_of_a_chunk_has_files_of_its_own_and_whoever_repeats_it_writes_the_same():
    written, chunk = {}, Chunk("a", 0, "", 0, 0, 0, 0, None, None)
    for version in (chunk, chunk, chunk._replace(start=1), chunk._replace(etag="other")):
        reader = S3SplitReader(Made({"a": [{"n": 1}]}), STORE, SCHEMA, write_bad_records=written.__setitem__)
        assert [*reader.read(ReadTask((SplitRange("a", 0, 1),), ((version,),)))] == []
        assert [*reader.bad_records.values()] == [1]
    assert len(written) == 3
    assert len({*written.values()}) == 1
