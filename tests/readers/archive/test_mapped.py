"""Parquet of other writers, with other names and types of columns."""

import pickle
from contextlib import nullcontext

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.readers.archive.test_records import SCHEMA, batch, record, rows
from tidegate.errors import CorruptDataError
from tidegate.readers.archive.mapped import MappedLayout
from tidegate.readers.archive.objects import UNKNOWN_MS
from tidegate.readers.places.place import Place

RECORDS = [record(at, 1_700_000_000_000 + at, b"k", b"v", [{"key": "h", "value": b"x"}]) for at in (3, 4, 7, 9)]


def written(location, table, path="a.parquet", **options):
    """Write an object with two row groups, and return its layout and the listing."""
    file = location / path
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, file, row_group_size=2, **options)
    return {path: file.stat().st_size}


def changed(**columns):
    """Return the records with other columns; None: without it."""
    table = pa.Table.from_batches([batch(RECORDS)])
    for name, column in columns.items():
        table = table.drop_columns([name])
        table = table if column is None else table.append_column(name, column(batch(RECORDS).column(name)))
    return table


def layout_of(location, given=None):
    return MappedLayout(Place(str(location)), given or {})


def read(layout, files, partition=0):
    (obj,) = layout.objects_in("", files)["orders", partition]
    sent = pickle.loads(pickle.dumps(layout))  # noqa: S301 - our own
    return rows(sent.read(obj, 0, 100, SCHEMA))


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"timestamp": lambda times: times.cast(pa.timestamp("ns"))},
        {"timestamp": lambda times: times.cast(pa.int64()).to_numpy() // 1000},
        {"key": lambda keys: keys.cast(pa.string()), "value": lambda values: values.cast(pa.large_binary())},
        {"offset": lambda offsets: offsets.cast(pa.int32()), "partition": lambda numbers: numbers.cast(pa.int64())},
        {"topic": lambda names: names.cast(pa.binary()), "partition": lambda numbers: numbers.cast(pa.string())},
    ],
)
def test_columns_of_other_types_give_kafkas_rows(tmp_path, columns):
    columns = {name: lambda old, new=new: pa.array(new(old)) for name, new in columns.items()}
    layout, files = layout_of(tmp_path), written(tmp_path, changed(**columns))
    assert read(layout, files) == RECORDS_READ
    (obj,) = layout.objects_in("", files)["orders", 0]
    assert (obj.first, obj.next, obj.max_ms) == (3, 10, 1_700_000_000_009)
    assert [(group.first, group.last) for group in layout.groups_of(obj)] == [(3, 4), (7, 9)]
    assert rows(layout.read(obj, 4, 9, SCHEMA)) == RECORDS_READ[1:3]


RECORDS_READ = rows([batch(RECORDS)])


def test_names_folders_and_times_without_statistics_as_spark_writes_them(tmp_path):
    """INT96 has no statistics, so each record may have any time until it is read."""
    table = changed(topic=None, partition=None, timestampType=None).rename_columns(
        {"offset": "kafka offset", "timestamp": "at"}
    )
    given = {"offset": "kafka offset", "timestamp": "at", "timestampType": None, "partition": "part"}
    path = "day=2026-01-01/topic=orders/part=12/part-0.snappy.parquet"
    files = written(tmp_path, table, path, use_deprecated_int96_timestamps=True)
    layout = layout_of(tmp_path, given)
    expected = [{**row, "partition": 12, "timestampType": None} for row in RECORDS_READ]
    assert read(layout, {**files, "_spark_metadata/0": 5, "topic=orders/_SUCCESS": 0}, 12) == expected
    (obj,) = layout.objects_in("", files)["orders", 12]
    assert obj.max_ms == UNKNOWN_MS


def test_a_footer_is_read_once_and_an_object_without_records_is_left_out(tmp_path):
    layout, files = layout_of(tmp_path), written(tmp_path, changed())
    files |= written(tmp_path, changed().slice(0, 0), "empty.parquet")
    seen = layout.objects_in("", files)
    for path in files:
        (tmp_path / path).unlink()
    assert layout.objects_in("", files) == seen
    assert list(seen) == [("orders", 0)]
    assert layout_of(tmp_path).objects_in("", files) == {}  # deleted after they were listed


@pytest.mark.parametrize(
    ("columns", "given", "sentence"),
    [
        ({"partition": lambda _: [0, 0, 0, 5]}, {}, "its partition is 0 and 5, and one partition is expected"),
        ({"topic": lambda _: ["orders", "x", "x", "x"]}, {}, "its topic is orders and x, and one topic is expected"),
        ({"topic": None}, {}, "its footer does not tell topic, partition and offsets"),
        ({"offset": lambda _: [3, 4, None, 9]}, {}, "its footer does not tell topic, partition and offsets"),
        ({"offset": lambda offsets: offsets.cast(pa.float64())}, {}, "its offsets are of the type float, and whole"),
        ({"offset": lambda _: [3, 7, 4, 9]}, {}, "it holds offsets 4 to 9, unlike its name or out of order"),
        ({"offset": lambda _: [4, 3, 7, 9]}, {}, "its offsets are out of order"),
        ({"key": None}, {}, "it has no column 'key'"),
        ({}, {"key": "k"}, "it has no column 'k'"),
        ({"value": lambda _: [1, 2, 3, 4]}, {}, "its column 'value' is int64, and binary is expected"),
        ({"timestamp": lambda _: ["now"] * 4}, {}, r"its column 'timestamp' is string, and timestamp\[us, tz=UTC\] is"),
    ],
)
def test_what_does_not_tell_the_offset_of_each_record_is_refused(tmp_path, columns, given, sentence):
    columns = {name: made and (lambda old, made=made: pa.array(made(old))) for name, made in columns.items()}
    files = written(tmp_path, changed(**columns))
    with pytest.raises(CorruptDataError, match=rf"a\.parquet cannot be read: {sentence}"):
        read(layout_of(tmp_path, given), files)


@pytest.mark.parametrize(
    ("offsets", "others", "is_told"),
    [
        ([3, 4, 5, 6], [4, 6, 8, 9], True),  # what is read of the other lies behind the first
        ([3, 4, 7, 9], [3, 4, 7, 9], True),
        ([3, 4, 7, 9], [10, 11, 12, 13], True),
        ([3, 5, 7, 9], [4, 6, 8, 10], False),
        ([3, 5, 7, 9], [3, 4, 5, 6], False),
    ],
)
def test_objects_overlap_only_where_no_record_can_be_missed(tmp_path, offsets, others, is_told):
    files = {}
    for path, numbers in (("a.parquet", offsets), ("b.parquet", others)):
        files |= written(tmp_path, changed(offset=lambda _, numbers=numbers: pa.array(numbers)), path)
    with nullcontext() if is_told else pytest.raises(CorruptDataError, match=r"a\.parquet and b\.parquet overlap"):
        assert len(layout_of(tmp_path).objects_in("", files)["orders", 0]) == 2
