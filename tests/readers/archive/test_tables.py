"""Tables as archives: what is read of them is what their own libraries read, whatever was done to the table."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import SCHEMA, Delta, Iceberg, record, rows_of, truth
from tidegate.errors import ConnectorError, CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.archive import table_file
from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.archive.delta import DeltaArchive, storage_options
from tidegate.readers.archive.iceberg import IcebergArchive
from tidegate.readers.archive.table import raised_as_ours

KINDS = [Delta, Iceberg]
PARTITIONS = (0, 1, 3)
OPERATIONS = ["append", "append mixed", "append again", "delete", "update", "compact", "sort", "forget", "overwrite"]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.kind, scope="module")
def kind(request):
    return request.param


class Life:
    """The life of a table; what an operation touches is drawn."""

    def __init__(self, table, dice):
        self.table, self.dice, self.ends = table, dice, dict.fromkeys(PARTITIONS, 0)
        table.append(self.new(0, 4) + self.new(3, 9))

    def new(self, partition, count):
        self.ends[partition] += count
        return [record(partition, at) for at in range(self.ends[partition] - count, self.ends[partition])]

    def does(self, operation):
        table, dice = self.table, self.dice
        some = int(dice.choice(PARTITIONS))
        low = int(dice.integers(0, max(1, self.ends[some])))
        where = f"partition = {some} and offset >= {low} and offset < {low + 3}"
        {
            "append": lambda: table.append(self.new(some, int(dice.integers(1, 30)))),
            "append mixed": self.mixed,
            "append again": lambda: table.append(self.again(some, low)),
            "delete": lambda: table.delete(where),
            "update": lambda: table.update(where, f"new {low}"),
            "overwrite": lambda: table.overwrite(where, [record(some, low, b"over")]),
            "compact": lambda: table.rewrite(sort=False),
            "sort": lambda: table.rewrite(sort=True),
            "forget": table.forget,
        }[operation]()

    def mixed(self):
        rows = [row for partition in PARTITIONS for row in self.new(partition, int(self.dice.integers(0, 9)))]
        self.table.append([rows[at] for at in self.dice.permutation(len(rows))])

    def again(self, some, low):
        """Return what a writer repeats that crashed after it had written."""
        return [row for row in self.table.rows() if row["partition"] == some and low <= row["offset"] < low + 5]


def lived(table, operations, seed):
    """Let a table live."""
    life = Life(table, np.random.default_rng(seed))
    for operation in operations:
        life.does(operation)


@given(st.lists(st.sampled_from(OPERATIONS), max_size=8), st.integers(0, 2**32), st.integers(1, 9))
def test_a_table_is_read_as_its_own_library_reads_it(tmp_path_factory, operations, seed, rows):
    check_life(Delta(tmp_path_factory.mktemp("table")), operations, seed, rows)


@pytest.mark.parametrize("seed", range(4))
def test_an_iceberg_table_is_read_as_its_own_library_reads_it(tmp_path, seed):
    dice = np.random.default_rng(seed)  # a commit takes a third of a second
    check_life(Iceberg(tmp_path), dice.choice(OPERATIONS, 7), seed, 3)


def check_life(table, operations, seed, rows):
    """Let a table live, and compare what is read.  rows: how many are decoded at once."""
    lived(table, operations, seed)
    archive = table.archive()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_file, "MOST_ROWS", rows)
        for partition in (*PARTITIONS, 2):
            expected = truth(table, partition)
            assert rows_of(archive, partition) == expected
            low = seed % 20
            inside = [row for row in expected if low <= row["offset"] < low + 9]
            assert rows_of(archive, partition, start=low, end=low + 9) == inside
            directory = archive.list_files([("t", partition)], None).directories["t", partition]
            bounds = [row["offset"] for row in expected]
            if not {"delete", "overwrite"} & set(operations):
                assert (directory.first, directory.end) == (min(bounds, default=None), max(bounds, default=-1) + 1)
            assert directory.holes(directory.first or 0, directory.end) == []


@given(st.lists(st.sampled_from(["append mixed", "append", "compact", "sort"]), max_size=6), st.integers(0, 2**32))
def test_no_file_with_a_record_of_a_time_is_left_out(tmp_path_factory, operations, seed):
    table = Delta(tmp_path_factory.mktemp("table"))
    lived(table, operations, seed)
    archive = table.archive()
    for partition in PARTITIONS:
        expected = truth(table, partition)
        directory = archive.list_files([("t", partition)], None).directories["t", partition]
        times = {row["offset"]: int(row["timestamp"].timestamp() * 1000 + 0.5) for row in expected}
        for time_ms in (1_700_000_000_000, 1_700_000_000_500, 1_700_000_000_990):
            held = {
                row["offset"]
                for part in directory.with_times_from(time_ms, 0)
                for batch in archive.read(part, SCHEMA)
                for row in batch.to_pylist()
            }
            assert {offset for offset, at in times.items() if at >= time_ms} <= held
        latest = directory.latest_ms(directory.end, -1, lambda _: True)
        assert latest in {None, max(times.values(), default=-1)}


def test_a_version_gives_the_same_rows_whatever_is_written_later(kind, tmp_path):
    table = kind(tmp_path / "table")
    table.append([record(0, at) for at in range(20)])
    pinned, before = table.version, truth(table, 0)
    table.delete("offset = 3")
    table.update("offset = 5", "new")
    table.rewrite(sort=False)
    table.append([record(0, at) for at in range(20, 30)])
    archive = table.archive()
    assert rows_of(archive, 0, pinned) == before
    assert archive.list_files([("t", 0)], pinned).version == pinned
    after = rows_of(archive, 0)
    assert after == truth(table, 0)
    assert len(after) == 29
    old = archive.list_files([("t", 0)], pinned).directories["t", 0]
    table.forget()
    (part,) = old.within(0, 25)
    with pytest.raises(ObjectGoneError, match="was deleted"):
        list(archive.read(part, SCHEMA))
    parts, end = archive.newest_parts(("t", 0), 0, 25)  # what an executor does then
    rows = [row for part in parts for batch in archive.read(part, SCHEMA) for row in batch.to_pylist()]
    assert (rows, end) == (truth(table, 0)[:24], 25)


def test_a_version_without_a_record_stays_so(kind, tmp_path):
    table = kind(tmp_path / "table")
    table.append([], SCHEMA)
    empty = table.archive().list_files([("t", 0)], None)
    assert not empty.directories["t", 0]
    table.append([record(0, 0)])
    again = table.archive().list_files([("t", 0)], empty.version)
    assert (again.version, bool(again.directories["t", 0])) == (empty.version, False)
    assert len(rows_of(table.archive(), 0)) == 1


def test_a_version_whose_files_are_gone_is_replaced_by_the_newest_where_planning_needs_them(kind, tmp_path, caplog):
    table = kind(tmp_path / "table")
    table.append([record(at % 2, at // 2) for at in range(20)])  # a file of two partitions
    pinned = table.version
    table.rewrite(sort=True)
    table.update("offset = 5", "new")
    table.forget()
    assert rows_of(table.archive(), 1, pinned) == truth(table, 1)
    assert f"version {table.version} is read in place of {pinned}" in caplog.text or kind is Iceberg


def test_a_version_that_is_gone_is_replaced_by_the_newest(kind, tmp_path, caplog):
    table = kind(tmp_path / "table")
    table.append([record(0, 0)])
    assert table.archive().list_files([("t", 0)], 77).version == table.version
    assert re.search(r"(version|snapshot) 77 is gone; (version|snapshot) \d+ is read", caplog.text)


def test_two_records_of_one_offset_are_an_error(kind, tmp_path):
    table = kind(tmp_path / "table")
    table.append([record(0, at) for at in range(9)])
    table.append([record(0, 4), record(0, 5, b"other")])
    sentence = r"holds offset 5 of t-0 twice, with different contents \(value\): delete the wrong record"
    with pytest.raises(CorruptDataError, match=sentence):
        rows_of(table.archive(), 0)
    assert len(rows_of(table.archive(), 0, end=5)) == 5


def test_columns_may_be_nested_have_other_names_and_be_missing(kind, tmp_path):
    meta = pa.struct(
        [("offset", pa.int64()), ("partition", pa.int32()), ("at", pa.timestamp("us")), ("k", pa.string())]
    )
    schema = pa.schema([("kafka", meta), ("body", pa.string())])
    at_us = 1_700_000_000_000_000
    rows = [{"kafka": {"offset": at, "partition": at % 2, "at": at_us, "k": "ä"}, "body": f"{at}"} for at in range(10)]
    table = kind(tmp_path / "table")
    table.append(rows, schema)
    columns = "offset=kafka.offset, partition=kafka.partition, timestamp=kafka.at, key=kafka.k, value=body, topic='t'"
    read = rows_of(table.archive(columns), 1)
    assert [row["offset"] for row in read] == [1, 3, 5, 7, 9]
    assert read[0] == {
        **dict.fromkeys(SCHEMA.names),
        "topic": "t",
        "partition": 1,
        "offset": 1,
        "key": "ä".encode(),
        "value": b"1",
        "timestamp": pa.scalar(at_us, pa.timestamp("us", "UTC")).as_py(),
    }
    assert rows_of(table.archive(columns), 1, topic="other") == []


def test_columns_that_were_added_later_are_null_before(kind, tmp_path):
    old = SCHEMA.remove(SCHEMA.get_field_index("headers"))
    table = kind(tmp_path / "table")
    records = [record(0, at) for at in range(6)]
    table.append([{**row, "headers": None} for row in records[:3]], old)
    table.append(records[3:], **table.with_new_columns)
    rows = rows_of(table.archive(), 0)
    assert rows == truth(table, 0)
    assert [row["headers"] for row in rows][:4] == [None, None, None, records[3]["headers"]]


@pytest.mark.parametrize(
    ("fields", "columns", "sentence"),
    [
        (
            {"value": None, "amount": pa.int64()},
            "",
            "has no column value, but .*amount: its rows are fields of records",
        ),
        ({"value": pa.int64()}, "", "whose column value is int64, which cannot be the value of a record"),
        ({"topic": None}, "", "has no column topic, .*such as topic='orders' if all its records are of one topic"),
        ({"offset": None}, "", "has no column offset, .* in archive.columns, such as offset=meta.offset"),
        ({}, "offset=meta.offset", "has no column meta.offset"),
    ],
)
def test_a_table_without_records_is_refused(kind, tmp_path, fields, columns, sentence):
    kinds = {field.name: field.type for field in SCHEMA} | fields
    table = kind(tmp_path / "table")
    table.append([], pa.schema([(name, of) for name, of in kinds.items() if of is not None]))
    with pytest.raises(OptionError, match=f"archive is '{table.location}', .*{sentence}"):
        table.archive(columns).list_files([("t", 0)], None)


def test_what_is_no_table_is_refused(kind, tmp_path):
    with pytest.raises(OptionError, match=r"archive is .*, but there is no"):
        kind(tmp_path / "nothing").archive().list_files([("t", 0)], None)


@pytest.mark.parametrize("text", ["offset", "offset=", "ofset=a", "=a"])
def test_a_malformed_option_is_refused(text):
    with pytest.raises(ValueError, match=r"expected name=column|did you mean 'offset'|not a column of Kafka"):
        Delta("x").archive(text)


def test_a_partitioned_table_need_not_keep_the_columns_in_its_files(tmp_path):
    topics = ["t", "a b%/ö", "n" * 60]
    table = Delta(tmp_path / "table", partition_by=["topic", "partition"])
    for number in range(2):
        table.append([record(p, number * 5 + at, topic=topic) for topic in topics for p in (0, 1) for at in range(5)])
    assert not {"topic", "partition"} & set(pq.read_schema(next((tmp_path / "table").rglob("*.parquet"))).names)
    archive = table.archive()
    for topic in topics:
        rows = [row for row in table.rows() if (row["topic"], row["partition"]) == (topic, 1)]
        assert rows_of(archive, 1, topic=topic) == sorted(rows, key=lambda row: row["offset"])
        assert len(rows) == 10


def test_files_without_statistics_are_opened_once(tmp_path, monkeypatch):
    table = Delta(tmp_path / "table", configuration={"delta.dataSkippingNumIndexedCols": "0"})
    for number in range(3):
        table.append([record(p, number * 5 + at) for p in (0, 1) for at in range(5)])
    opened = []
    survey = table_file.OpenTable.survey
    monkeypatch.setattr(table_file.OpenTable, "survey", lambda file: opened.append(1) or survey(file))
    archive = table.archive()
    assert rows_of(archive, 1) == truth(table, 1)
    assert rows_of(archive, 0) == truth(table, 0)
    assert len(opened) == 3


def test_a_newer_version_is_found_by_an_archive_that_is_used_again(kind, tmp_path):
    table = kind(tmp_path / "table")
    archive = table.archive()
    for number in range(3):
        table.append([record(0, number)])
        assert len(rows_of(archive, 0)) == number + 1


def test_a_table_that_is_deleted_and_made_anew_is_read_as_it_is_now(kind, tmp_path):
    table = kind(tmp_path / "table")
    for begin in range(0, 30, 10):
        table.append([record(0, at) for at in range(begin, begin + 10)])
    archive = table.archive()
    assert len(rows_of(archive, 0)) == 30
    table.drop()
    for begin, end in [(0, 50), (50, 60), (60, 70), (70, 80), (80, 90)]:
        table.append([record(0, at, b"new") for at in range(begin, end)])
    assert rows_of(archive, 0) == truth(table, 0)


def copied(archive):
    """Return what an executor gets."""
    return pickle.loads(pickle.dumps(archive))  # noqa: S301 - our own


def in_bucket(kind, bucket, config):
    """Return an archive of a table in a bucket, which its library has written."""
    records = pa.Table.from_pylist([record(0, at) for at in range(9)], schema=SCHEMA)
    address = f"s3://{bucket.name}/lake/orders"
    if kind is Delta:
        options = {**storage_options(config), "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
        write_deltalake(address, records, storage_options=options)
        return DeltaArchive(f"delta:{address}", TableColumns(), config)
    archive = IcebergArchive("iceberg:far.bronze.orders", TableColumns(), config)
    archive._catalog.create_namespace_if_not_exists("bronze")
    archive._catalog.create_table("bronze.orders", SCHEMA, location=address).append(records)
    return archive


def test_a_table_in_a_bucket_is_reached_as_boto3_does(kind, bucket, s3_config):
    archive = in_bucket(kind, bucket, s3_config)
    assert [row["offset"] for row in rows_of(archive, 0)] == [*range(9)]
    assert s3_config.secret_key not in repr(vars(copied(archive)))
    archive._connection = replace(s3_config, secret_key="wr0ng-" + s3_config.secret_key)
    again = copied(archive)
    with pytest.raises((ConnectorError, OptionError)) as refused:
        again.list_files([("t", 0)], None)
    assert refused.match(r"(403 Forbidden|ACCESS_DENIED [^\n<>]*)$")
    assert s3_config.secret_key not in str(refused.getrepr())
    assert refused.value.__cause__ is None, "Spark prints causes"


def test_what_a_library_says_is_one_line_without_credentials():
    said = "no adapter for 'joe:s3cr3t@host/x', http://a:@h or s3://b/c:d/e@f\n   0: <unknown>\n"
    shown = "no adapter for '\\*\\*\\*@host/x', http://\\*\\*\\*@h or s3://b/c:d/e@f"
    with (
        pytest.raises(ConnectorError, match=f"^archive is 'x', whose log cannot be read: {shown}$"),
        raised_as_ours("archive is 'x'", "it", (), (), (OSError,)),
    ):
        raise OSError(said)


@pytest.mark.parametrize("name", ["topic", "partition", "offset"])
def test_a_row_that_does_not_say_whose_it_is_ends_the_query(kind, tmp_path, name):
    table = kind(tmp_path / "table")
    table.append([record(0, 0), {**record(0, 1), name: None}])
    with pytest.raises(CorruptDataError, match=f"it has rows without the {name} of the record"):
        rows_of(table.archive(), 0)


def test_a_file_in_a_partition_of_null_ends_the_query(tmp_path):
    table = Delta(tmp_path / "table", partition_by=["partition"])
    table.append([record(0, 0), {**record(0, 1), "partition": None}])
    with pytest.raises(CorruptDataError, match="it has rows without the partition of the record"):
        rows_of(table.archive(), 0)


@pytest.mark.parametrize("name", ["key", "offset", "timestamp", "timestampType"])
def test_a_table_that_is_partitioned_by_what_a_record_holds_is_refused(tmp_path, name):
    table = Delta(tmp_path / "table", partition_by=[name])
    table.append([record(0, 1)])
    with pytest.raises(OptionError, match=f"archive is .*, a table that is partitioned by {name}, the {name} of"):
        rows_of(table.archive(), 0)


def test_a_file_from_before_the_column_of_timestamps_ends_the_query(tmp_path):
    table = Delta(tmp_path / "table")
    rows = pa.Table.from_pylist([record(0, at) for at in range(3)], schema=SCHEMA)
    table.append(rows.drop_columns(["timestamp"]))
    table.append(rows, schema_mode="merge")
    with pytest.raises(CorruptDataError, match="it has no column of the record's timestamp"):
        rows_of(table.archive(), 0)


def test_files_without_a_timestamp_do_not_say_the_latest(kind, tmp_path):
    table = kind(tmp_path / "table")
    table.append([{**record(0, at), "timestamp": None} for at in range(3)])
    directory = table.archive().list_files([("t", 0)], None).directories["t", 0]
    assert directory.latest_ms(99, -1, lambda _: True) is None
