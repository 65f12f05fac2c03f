"""The rows and columns of the S3 source: paths, bad records, and options that leave some out."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from tests.support.buckets import parquet
from tests.support.objects.endpoints import faulty
from tests.support.streams import NOON, available_now
from tidegate import CorruptDataError, OptionError, S3Source
from tidegate.errors import BadRecordError
from tidegate.readers.objects.values import SMALL_BYTES

FILE_METADATA = ["file_name", "file_size", "file_block_start", "file_block_length"]


@pytest.fixture
def source(bucket):
    def make(**fields):
        return S3Source(**{"path": bucket.path, "file_format": "json", **bucket.connection, **fields})

    return make


def rows_of(frame):
    return sorted(map(repr, frame.toArrow().to_pylist()))


LINES = {
    "n=1/day=2026-01-31/a b.json": b'{"i":1,"s":"a"}\n{"i":2}\n',
    "n=2/day=2026-02-01/b.json": b'{"i":3,"s":"b"}\n{"i":"x","s":"c"}\n{"i":\n',
    "n=2/day=2026-02-01/13/c.json": b'{"i":5}\n',
    "n=__HIVE_DEFAULT_PARTITION__/day=2026-02-01/c.json": b'{"i":4,"n":8}\n',
}


@pytest.mark.parametrize(("mode", "recursive"), [("PERMISSIVE", False), ("DROPMALFORMED", False), ("PERMISSIVE", True)])
def test_columns_and_rows_are_those_of_sparks_own_source_over_the_same_files(
    spark, bucket, source, tmp_path, mode, recursive
):
    for key, content in LINES.items():
        bucket.put(key, content)
        file = tmp_path / key
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    theirs = spark.read.options(mode=mode, recursiveFileLookup=recursive).json(str(tmp_path))
    mine = source(mode=mode, recursive_file_lookup=recursive, include_metadata=True).read(spark)
    assert mine.drop("_metadata").schema == theirs.schema
    assert rows_of(mine.drop("_metadata")) == rows_of(theirs)
    shared = ["i", *(f"_metadata.{name}" for name in FILE_METADATA)]
    plain = "file_name != 'a%20b.json'"  # Spark escapes the names
    assert rows_of(mine.select(shared).where("file_name != 'a b.json'")) == rows_of(theirs.select(shared).where(plain))
    [path] = {row[0] for row in mine.where("i = '1'").select("_metadata.file_path").collect()}
    assert path == f"{bucket.path}/n=1/day=2026-01-31/a b.json"


def test_a_stream_has_the_columns_of_its_first_run_and_writes_bad_records_of_any_executor_to_a_bucket(
    spark, bucket, source, tmp_path
):
    def run(**fields):
        made = source(
            state_location=str(tmp_path / "state"),
            bad_records_path=f"s3://{bucket.name}/bad",
            rescued_data_column="rest",
            **fields,
        )
        batches = available_now(made.read_stream(spark), tmp_path / "checkpoint")
        return batches.all_rows, batches.bad_records

    bucket.put("day=2026-01-31/a.json", b'{"i":1}\n{\n')
    [row], counted = run()
    assert (row["i"], str(row["day"]), row["rest"], counted) == (1, "2026-01-31", None, 1)
    bucket.put("day=2026-02-01/b.json", b'{"i":"x","new":2}\n[\n{\n')
    [row], counted = run()
    assert counted == 3
    assert (row["i"], str(row["day"])) == (None, "2026-02-01")
    assert json.loads(row["rest"]) == {"i": "x", "new": 2, "_file_path": f"{bucket.path}/day=2026-02-01/b.json"}
    lines = [json.loads(line) for body in bucket.bodies("bad/").values() for line in body.splitlines()]
    assert sorted(line["path"].rpartition("/")[2] for line in lines) == ["a.json", "b.json", "b.json"]


# --- rows that are left out are not fetched ---


def hours(bucket, suffix):
    """Write an object for each of 6 hours with a row for each minute."""
    for hour in range(6):
        bucket.put_rows(f"{hour}.{suffix}", [(n, NOON + n * 60_000) for n in range(hour * 60, hour * 60 + 60)])


@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_rows_outside_of_the_event_times_are_left_out_and_their_objects_are_not_fetched(spark, bucket, source, suffix):
    hours(bucket, suffix)
    begin, end = 90, 150  # in minutes: parts of two objects
    with faulty(bucket.server) as proxy:
        made = source(
            endpoint=proxy.endpoint,
            file_format=suffix,
            columns=pa.schema([("id", pa.int64()), ("at", pa.timestamp("us") if suffix == "parquet" else pa.int64())]),
            event_time="column:at",
            event_time_unit=None if suffix == "parquet" else "ms",
            starting_timestamp=NOON + begin * 60_000,
            ending_timestamp=NOON + end * 60_000,
        )
        assert sorted(row["id"] for row in made.read(spark).select("id").collect()) == list(range(begin, end))
        found = [*proxy.got]
        proxy.got.clear()
        everything = made.model_copy(update={"starting_timestamp": None, "ending_timestamp": None})
        assert everything.read(spark).count() == 360
    # All six objects are surveyed for their times, but only two are read.
    assert (len(found), len(proxy.got)) == (6 + 2, 6 + 6)
    left_out = [len(body) for key, body in bucket.bodies().items() if key[len("in/")] not in "12"]
    assert sum(proxy.got) - sum(found) >= sum(left_out)


def test_a_stream_looks_into_no_object_whose_path_says_that_it_is_left_out(spark, bucket, source, tmp_path):
    for day in (1, 2, 3):
        bucket.put(f"dt=2026-01-0{day}/x.json", f'{{"id":{day}}}\n'.encode())
    with faulty(bucket.server) as proxy:
        made = source(
            endpoint=proxy.endpoint,
            columns=pa.schema([("id", pa.int64())]),
            event_time="path:dt={yyyy-MM-dd}",
            starting_timestamp="2026-01-02",
            ending_timestamp="2026-01-03T00:00:00Z",
            state_location=str(tmp_path / "state"),
        )
        run = available_now(made.read_stream(spark), tmp_path / "checkpoint")
        assert [row["id"] for row in run.all_rows] == [2]
        assert len(proxy.got) == 1


def test_columns_that_are_not_named_are_not_fetched_of_an_object_beyond_8_mib(spark, bucket, source):
    table = pq.read_table(pa.BufferReader(parquet([(n, NOON + n) for n in range(100)])))
    sink = pa.BufferOutputStream()
    pq.write_table(table.append_column("wide", [[os.urandom(100_000)] * 100]), sink, use_dictionary=False)
    bucket.put("x.parquet", sink.getvalue().to_pybytes())
    fetched = {}
    with faulty(bucket.server) as proxy:
        for columns in ("wide", "id, at"):
            frame = source(endpoint=proxy.endpoint, file_format="parquet", columns=columns).read(spark)
            proxy.got.clear()
            assert frame.toArrow().num_rows == 100
            fetched[columns] = sum(proxy.got)
            assert frame.columns == columns.split(", ")
    assert fetched["wide"] > SMALL_BYTES > 10 * fetched["id, at"]


# --- options ---


def test_loading_or_reading_a_batch_leaves_the_state_location_alone(spark, bucket, source, tmp_path):
    bucket.put("a.json", b'{"i":1}\n')
    frame = source(state_location=str(tmp_path / "state")).read(spark)
    assert frame.count() == 1
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("fields", "schema", "sentence"),
    [
        ({"include_existing_files": False}, None, "includeExistingFiles is false, which leaves a batch query nothing"),
        ({}, "i int, i int", "the given schema names 'i' twice"),
        ({"include_metadata": True}, "i int", "an option adds the column '_metadata', which the given schema lacks"),
        ({"rescued_data_column": "rest"}, "i int, rest int", "an option adds the column 'rest', which the given"),
        ({"mode": "PERMISSIVE"}, "i int, _corrupt_record int", "the column '_corrupt_record' is of the type INT"),
        (
            {"event_time": "column:at", "event_time_unit": "ms", "starting_timestamp": 0},
            "i int",
            "the column 'at' has to be among the columns that are read",
        ),
        (
            {"event_time": "column:i", "event_time_unit": "ms", "starting_timestamp": 0},
            "i int",
            "the column 'i' is of type INT, too narrow for event times in ms; BIGINT is needed",
        ),
    ],
)
@pytest.mark.usefixtures("spark")  # whose parser reads the schema
def test_what_contradicts_a_batch_query_is_told_in_one_sentence(source, fields, schema, sentence):
    made = source(**fields)
    if schema is not None:
        made = made.with_schema(StructType.fromDDL(schema))
    with pytest.raises(OptionError, match=sentence):
        made.as_batch()


def test_columns_that_an_option_adds_and_objects_have_and_names_of_none_are_refused(bucket, source):
    bucket.put("a.json", b'{"id":1,"rest":2}\n')
    with pytest.raises(OptionError, match="the objects have a column 'rest' of their own"):
        _ = source(rescued_data_column="rest").arrow_schema
    with pytest.raises(OptionError, match="there is no column 'ids' to read; did you mean 'id'"):
        _ = source(columns=["ids"]).arrow_schema
    with pytest.raises(OptionError, match="columns names 'ID' twice"):
        _ = source(columns=["id", "ID"]).arrow_schema
    assert source(columns=["id"], include_metadata=True).arrow_schema.names == ["id", "_metadata"]


# --- inference ---


def test_columns_are_inferred_from_the_first_keys_and_from_objects_that_are_read(bucket, source):
    for number in range(20):
        bucket.put(f"day=2026-01-{number + 1:02}/x.json", f'{{"c{number:02}":1}}\n'.encode())
    bucket.put("day=2026-01-00/empty.json", b"")
    names = source().arrow_schema.names
    assert names == [*(f"c{number:02}" for number in range(16)), "day"]
    bucket.put("day=2026-01-03/x.json", b"no JSON\n")
    for fields in ({}, {"ignore_corrupt_files": True}):
        with pytest.raises(BadRecordError, match=r"day=2026-01-03/x\.json: the line at byte 0 is not a JSON object"):
            _ = source(**fields).arrow_schema
    bucket.delete("day=2026-01-03/x.json")
    bucket.put("day=2026-01-03/x.json.gz", b"no gzip\n")
    with pytest.raises(CorruptDataError, match=r"day=2026-01-03/x\.json\.gz: cannot decompress it"):
        _ = source().arrow_schema
    assert "c02" not in source(ignore_corrupt_files=True).arrow_schema.names
    assert source(recursive_file_lookup=True, ignore_corrupt_files=True).arrow_schema.names[-1] == "c15"
    # There is no day 0, so all values are texts; all folders decide about that, not only those of samples.
    assert source(ignore_corrupt_files=True).arrow_schema.field("day").type == pa.string()


def test_a_bucket_of_nothing_but_what_is_skipped_says_so(bucket, source):
    with pytest.raises(OptionError, match="there is no object with bytes under"):
        _ = source().arrow_schema
    bucket.put("x.json.gz", b"no gzip\n")
    with pytest.raises(CorruptDataError, match="cannot decompress it"):
        _ = source(ignore_corrupt_files=True).arrow_schema
