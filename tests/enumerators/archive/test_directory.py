"""The directory against an oracle that knows of each offset which object holds it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.archives import list_partition
from tidegate.enumerators.archive.directory import Directory
from tidegate.readers.archive.objects import ArchivedObject, parse_name
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
    directory = Directory(objects)
    parts = list(directory.within(start, end))
    read = [offset for part in parts for offset in range(part.start, part.end)]
    assert read == sorted(held(objects) & set(range(start, end)))
    assert all(part.obj.first <= part.start < part.end <= part.obj.next for part in parts)
    missing = [offset for begin, stop in directory.holes(start, end) for offset in range(begin, stop)]
    assert sorted(read + missing) == list(range(start, end))


@given(archives(), st.integers(0, MOST))
def test_from_the_seam_on_kafka_has_all_records(objects, begin):
    seam = Directory(objects).seam(begin)
    assert seam >= begin
    assert set(range(begin, seam)) <= held(objects)
    assert seam not in held(objects)


@given(archives(), st.integers(0, 9), st.integers(0, MOST))
def test_no_object_with_records_of_a_time_is_left_out(objects, time_ms, start):
    directory = Directory(objects)
    found = list(directory.with_times_from(time_ms, start))
    assert found == [part for part in directory.parts if part.obj.max_ms >= time_ms and part.end > start]
    assert directory.end == max(held(objects), default=-1) + 1


def test_a_listing_tells_offsets_times_and_the_topics_id(tmp_path):
    obj = ArchivedObject("orders/0", 3, 10, 20, -5, 1_700_000_000_000, "3wPRAVyyQuWBJIrTXdHuzg", leader_epoch=4)
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / obj.name).write_bytes(b"abc")
    (folder / "README.md").write_bytes(b"")
    directory = list_partition(Place(str(tmp_path)), "orders", 0)
    assert [part.obj for part in directory.parts] == [obj]
    assert (directory.first, directory.topic_ids, directory.leader_epoch) == (10, {obj.topic_id}, 4)
    of_old_brokers = obj._replace(topic_id="", leader_epoch=None)
    assert parse_name("orders/0", of_old_brokers.name, 3) == of_old_brokers
    assert list_partition(Place(str(tmp_path)), "orders", 1).first is None
    assert parse_name("orders/0", obj.name.replace("parquet", "tmp"), 3) is None
