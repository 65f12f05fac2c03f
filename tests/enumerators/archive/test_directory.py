"""The directory, against an oracle that knows of each offset which object holds it, and records found by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.archive.test_records import SCHEMA, archived, record
from tests.support.streams import list_partition
from tidegate.alignment.splits import Head
from tidegate.enumerators.archive.listing import ParquetArchive
from tidegate.enumerators.archive.records import ArchivedRecords
from tidegate.errors import OptionError
from tidegate.readers.archive.objects import ArchivedObject, directory_of, parse_name
from tidegate.readers.places.place import Place

MOST = 40


@st.composite
def archives(draw):
    """Return objects that may overlap, touch or leave holes."""
    ranges = draw(st.lists(st.tuples(st.integers(0, MOST), st.integers(1, 12), st.integers(-1, 9)), max_size=8))
    return [ArchivedObject("t/0", 100, first, first + length, ms, ms, "") for first, length, ms in ranges]


def held(objects):
    return {offset for obj in objects for offset in range(obj.first, obj.next)}


@given(archives(), st.integers(0, MOST), st.integers(0, MOST))
def test_each_archived_offset_of_a_range_is_read_once(objects, start, end):
    directory = directory_of(objects)
    parts = list(directory.within(start, end))
    read = [offset for part in parts for offset in range(part.start, part.end)]
    assert read == sorted(held(objects) & set(range(start, end)))
    assert all(part.files[0].first <= part.start < part.end <= part.files[0].next for part in parts)
    missing = [offset for begin, stop in directory.holes(start, end) for offset in range(begin, stop)]
    assert sorted(read + missing) == list(range(start, end))


@given(archives(), st.integers(0, MOST))
def test_from_the_seam_on_kafka_has_all_records(objects, begin):
    seam = directory_of(objects).seam(begin)
    assert seam >= begin
    assert set(range(begin, seam)) <= held(objects)
    assert seam not in held(objects)


@given(archives(), st.integers(0, 9), st.integers(0, MOST))
def test_no_object_with_records_of_a_time_is_left_out(objects, time_ms, start):
    directory = directory_of(objects)
    found = list(directory.with_times_from(time_ms, start))
    assert found == [part for part in directory.parts if part.files[0].max_ms >= time_ms and part.end > start]
    assert directory.end == max(held(objects), default=-1) + 1


def test_a_listing_tells_offsets_times_and_the_topics_id(tmp_path):
    obj = ArchivedObject("orders/0", 300, 10, 20, -5, 1_700_000_000_000, "3wPRAVyyQuWBJIrTXdHuzg", leader_epoch=4)
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / obj.name).write_bytes(bytes(300))
    (folder / "README.md").write_bytes(b"")
    directory = list_partition(Place(str(tmp_path)), "orders", 0)
    assert [part.files[0] for part in directory.parts] == [obj]
    assert (directory.first, directory.topic_ids, directory.leader_epoch) == (10, {obj.topic_id}, 4)
    of_old_brokers = obj._replace(topic_id="", leader_epoch=None)
    assert parse_name("orders/0", of_old_brokers.name, 300) == of_old_brokers
    assert list_partition(Place(str(tmp_path)), "orders", 1).first is None
    assert parse_name("orders/0", obj.name.replace("parquet", "tmp"), 300) is None


@pytest.mark.parametrize("size", [0, 4])
def test_an_object_that_a_crash_left_unfinished_is_not_archived(tmp_path, size):
    finished, unfinished = (ArchivedObject("orders/0", 12, at, at + 10, 0, 9, "id") for at in (0, 10))
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / finished.name).write_bytes(bytes(12))
    (folder / unfinished.name).write_bytes(bytes(size))
    directory = list_partition(Place(str(tmp_path)), "orders", 0)
    assert [part.files[0] for part in directory.parts] == [finished]
    assert directory.holes(0, 20) == [(10, 20)]


@pytest.mark.parametrize("log", ["_delta_log/00000000000000000000.json", "metadata/00000-1f.metadata.json"])
@pytest.mark.parametrize("given", ["orders", "."])
def test_a_table_is_no_archive(tmp_path, log, given):
    (tmp_path / "orders" / log).parent.mkdir(parents=True)
    (tmp_path / "orders" / log).write_bytes(b"{}")
    (tmp_path / "orders" / "part-00000.parquet").write_bytes(b"")
    kind = "a Delta" if "delta" in log else "an Iceberg"
    with pytest.raises(
        OptionError, match=f"archive is .*, but .*orders is {kind} table, which is read by its log: name it after"
    ):
        list_partition(Place(str(tmp_path / given)), "orders", 0)


def test_a_folder_of_that_name_without_a_log_is_no_table(tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "readme.json").write_bytes(b"{}")
    assert not list_partition(Place(str(tmp_path)), "orders", 0).parts


def test_a_time_is_not_looked_for_behind_the_end_of_the_range(tmp_path):
    place, obj, _ = archived(tmp_path, [record(at, at) for at in range(10)], following=10)
    deleted = obj._replace(first=10, next=20, max_ms=100)
    records, directory = ArchivedRecords(ParquetArchive(place), SCHEMA), directory_of([obj, deleted])
    assert records.first_at(directory, 5, 0, 10) == Head(5, 5)
    assert records.first_at(directory, 50, 0, 10) is None
