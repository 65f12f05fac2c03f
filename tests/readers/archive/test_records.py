"""Records that are written to an archive and read again, in a folder and in a bucket."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.enumerators.archive.listing import ParquetArchive
from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.archive import parquet
from tidegate.readers.archive.directory import ArchivedPart
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.parquet import write_object
from tidegate.readers.kafka.rows import arrow_schema
from tidegate.readers.places.place import Place

SCHEMA = arrow_schema(include_headers=True)
OPTIONAL_BYTES = st.none() | st.binary(max_size=5)
HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": OPTIONAL_BYTES}), max_size=2)


def record(offset, timestamp_ms=0, key=b"", value=b"", headers=None, timestamp_type=0):
    return {
        "key": key,
        "value": value,
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "timestamp": timestamp_ms * 1000,
        "timestampType": timestamp_type,
        "headers": headers,
    }


def batch(records):
    return pa.RecordBatch.from_pylist(records, schema=SCHEMA)


def rows(batches):
    return [row for part in batches for row in part.to_pylist()]


def read(place, obj, start, end):
    return ParquetArchive(place).read(ArchivedPart(start, end, (obj,)), SCHEMA)


def archived(location, records, first=0, following=100):
    """Write records in batches of three."""
    place = Place(str(location))
    empty = ArchivedObject("orders/0", 0, first, following, -1, -1, "id")
    batches = [batch(records[at : at + 3]) for at in range(0, len(records), 3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "GROUP_BYTES", 1)  # each batch is a row group
        return place, *write_object(place, empty, SCHEMA, batches)


@given(
    st.lists(
        st.builds(
            record,
            st.just(0),
            st.integers(-1, 2**45),
            OPTIONAL_BYTES,
            OPTIONAL_BYTES,
            HEADERS,
            st.sampled_from([0, 1]),
        ),
        max_size=12,
    ),
    st.data(),
)
def test_any_range_gives_the_records_that_were_written(tmp_path_factory, records, data):
    gaps = data.draw(st.lists(st.integers(1, 4), min_size=len(records), max_size=len(records)))
    for number, kept in enumerate(records):
        kept["offset"] = sum(gaps[:number])
    place, obj, count = archived(tmp_path_factory.mktemp("archive"), records)
    assert count == len(records)
    times = [kept["timestamp"] // 1000 for kept in records]
    assert (obj.min_ms, obj.max_ms) == (min(times, default=-1), max(times, default=-1))
    start = data.draw(st.integers(0, 50))
    end = data.draw(st.integers(start, 60))
    wanted = [kept for kept in records if start <= kept["offset"] < end]
    assert rows(read(place, obj, start, end)) == (rows([batch(wanted)]) if wanted else [])


def test_the_same_records_give_the_same_object(tmp_path):
    records = [record(at, at * 1000, b"key", bytes(100)) for at in range(50)]
    contents = []
    for name in "ab":
        place, obj, _ = archived(tmp_path / name, records)
        contents.append((obj.path, (tmp_path / name / obj.path).read_bytes()))
        assert [path.name for path in (tmp_path / name / "orders" / "0").iterdir()] == [obj.name]
    assert contents[0] == contents[1]
    assert [(group.first, group.last) for group in ParquetArchive(place).groups_of(obj)][:2] == [(0, 2), (3, 5)]


def test_a_large_object_is_read_by_ranges_from_a_bucket(bucket, s3_config):
    noise = pa.array([bytes([at % 251]) * 10 for at in range(30)])
    records = [record(at, at * 1000, value=noise[at].as_py()) for at in range(30)]
    place = Place(f"s3://{bucket.name}/lake", s3_config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.readers.archive.parquet.SMALL_BYTES", 100)
        patch.setattr(parquet, "GROUP_BYTES", 1)
        empty = ArchivedObject("orders/0", 0, 0, 30, -1, -1, "")
        obj, _ = write_object(place, empty, SCHEMA, [batch(records[:20]), batch(records[20:])])
        assert rows(read(place, obj, 15, 25)) == rows([batch(records[15:25])])


@pytest.mark.parametrize("cut", [1, 200, 1000])
def test_a_damaged_object_is_named(tmp_path, cut):
    place, obj, _ = archived(tmp_path, [record(at) for at in range(30)])
    file = tmp_path / obj.path
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(CorruptDataError, match=obj.name):
        list(read(place, obj._replace(size=obj.size - cut), 0, 30))
    with pytest.raises(ObjectGoneError, match=obj.name):
        list(read(place, obj, 0, 30))
    file.unlink()
    with pytest.raises(ObjectGoneError, match="was deleted"):
        list(read(place, obj, 0, 30))


def test_a_byte_that_has_changed_is_noticed(tmp_path):
    noise = np.random.default_rng(1).bytes(5000)  # zstd keeps it as it is
    place, obj, _ = archived(tmp_path, [record(0, value=noise)])
    file = tmp_path / obj.path
    content = file.read_bytes()
    at = content.index(noise[1000:1100])
    file.write_bytes(content[:at] + b"?" + content[at + 1 :])
    with pytest.raises(CorruptDataError, match=rf"{obj.name} cannot be read: .*checksum"):
        list(read(place, obj, 0, 30))


@pytest.mark.parametrize(
    "other",
    [{"first": 5}, {"next": 500}, {"folder": "orders/1"}, {"topic_id": "other"}, {"min_ms": 1}, {"max_ms": 5}],
)
def test_an_object_that_holds_other_records_than_its_name_says_is_refused(tmp_path, other):
    place, obj, _ = archived(tmp_path, [record(at) for at in range(30)])
    renamed = obj._replace(**other)
    (tmp_path / renamed.folder).mkdir(exist_ok=True)
    (tmp_path / obj.path).rename(tmp_path / renamed.path)
    with pytest.raises(CorruptDataError, match="its footer has another name"):
        list(read(place, renamed, 5, 30))
