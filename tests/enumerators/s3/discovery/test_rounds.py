"""One round of discovery: what is new, gone, corrupt or overwritten, how much is in flight, and what was left out."""

import json
import threading

import pytest

from tests.enumerators.s3.objects import CHUNK_BYTES, MODIFIED, discovery
from tests.support.command import await_that
from tidegate.enumerators.s3.discovery import rounds
from tidegate.enumerators.s3.discovery.rounds import LeftOut, LeftOutObject
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.origin import ColumnTimes
from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, ObjectGoneError
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.objects.values import S3Object

IN_FLIGHT = rounds._OBJECTS_AT_ONCE * (rounds._MOST_WAITING + 1)


def keys(found):
    return found["key"].to_pylist()


def survey_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("tidegate-survey")]


def test_a_round_finds_what_is_new_with_all_its_chunks(store):
    store.put("b", [5, 3], [7])
    store.put("a", [None, 2])
    store.put("empty")
    finder = discovery(store)
    assert sorted((row["key"], row["start"], row["min_ms"], row["max_ms"]) for row in finder.round().to_pylist()) == [
        ("a", 0, 2, 2),
        ("b", 0, 3, 5),
        ("b", CHUNK_BYTES, 7, 7),
    ]
    assert keys(finder.round()) == []
    store.put("c", [1])
    assert keys(finder.round()) == ["c"]
    assert sorted(store.surveyed) == ["a", "b", "c", "empty"]


def test_a_path_without_objects_is_named_once(store, caplog):
    finder = discovery(store)
    for _ in range(2):
        finder.round()
        assert caplog.text.count("there is no object to read yet: check the options path and pathGlobFilter") == 1
    caplog.clear()
    store.put("a", [1])
    for each in (finder, discovery(store)):
        each.round()
        assert "no object" not in caplog.text


def test_an_overwritten_object_is_found_again_only_when_that_is_allowed(store, caplog):
    for allow in (True, False):
        store.put("a", [1])
        finder = discovery(store, allow_overwrites=allow)
        finder.round()
        store.put("a", [2])
        assert keys(finder.round()) == ["a"] * allow
        assert keys(finder.round()) == []
        assert caplog.text.count("changed after discovery") == (not allow)
    assert "allowOverwrites is false: 1 object that changed after discovery, such as 'a'" in caplog.text


def test_an_object_that_goes_before_it_is_looked_at_is_new_when_it_is_there_again(store, caplog):
    def go(obj):
        if obj.key == "b":
            raise ObjectGoneError("b was deleted")

    for key in "abc":
        store.put(key, [1])
    store.on_survey = go
    finder = discovery(store)
    assert sorted(keys(finder.round())) == ["a", "c"]
    assert "'b' was deleted or overwritten before it could be looked at" in caplog.text
    store.on_survey = lambda _: None
    assert keys(finder.round()) == ["b"]


def break_b(obj):
    if obj.key == "b":
        raise CorruptDataError("in/b is no Parquet")


def test_a_corrupt_object_ends_the_round_and_all_is_found_by_the_next_one(store, monkeypatch):
    monkeypatch.setattr(rounds, "_OBJECTS_PER_BATCH", 1)
    monkeypatch.setattr(rounds, "_OBJECTS_AT_ONCE", 1)
    for key in "abcd":
        store.put(key, [1])
    store.on_survey = break_b
    finder = discovery(store)
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=r"in/b.*; set ignoreCorruptFiles to true to go on without it$"):
            finder.round()
    store.on_survey = lambda _: None
    assert sorted(keys(finder.round())) == ["a", "b", "c", "d"]


def test_a_corrupt_object_is_left_out_once_when_that_is_asked_for(store, caplog):
    for key in "abc":
        store.put(key, [1])
    store.on_survey = break_b
    finder = discovery(store, ignore_corrupt=True)
    assert sorted(keys(finder.round())) == ["a", "c"]
    assert keys(finder.round()) == []
    assert caplog.text.count("left out: in/b") == 1
    assert [(noted.obj.key, noted.reason) for noted in finder.left_out.objects()] == [("b", "corrupt")]


def test_a_bad_record_that_ends_the_query_is_no_corrupt_object_to_be_left_out(store):
    store.put("a", [1])

    def refuse(obj):
        raise BadRecordError(f"{obj.key}: the line at byte 0 is not a JSON object")

    store.on_survey = refuse
    with pytest.raises(BadRecordError, match="the line at byte 0"):
        discovery(store, ignore_corrupt=True).round()


def test_a_policy_that_fails_is_no_corrupt_object_to_be_left_out(store):
    store.put("a", [None, 2])
    finder = discovery(store, ObjectTimes(ColumnTimes("t")), ignore_corrupt=True)
    with pytest.raises(CorruptDataError, match="'a' has no usable event time"):
        finder.round()
    assert len(finder.seen) == 0


def test_times_are_judged_by_the_clock_at_the_beginning_of_the_round(store):
    store.put("a", [4_999], [5_001])
    without_skew = EventTimePolicy(max_future_skew_ms=0, earliest_ms=LEAST_MS)
    found = discovery(store, ObjectTimes(ColumnTimes("t"), policy=without_skew), clock=lambda: 5.0).round()
    assert found["min_ms"].to_pylist() == [4_999, None]


def test_a_bounded_number_of_objects_is_in_flight(store):
    listed, go_on = [0], threading.Event()
    for number in range(3 * IN_FLIGHT):
        store.put(f"{number:06}", [1])
    store.page_size = 100
    store.on_page = lambda page: listed.__setitem__(0, listed[0] + len(page))
    store.on_survey = lambda _: go_on.wait(60)
    finder = discovery(store)
    tables = []
    thread = threading.Thread(target=lambda: tables.append(finder.round()))
    thread.start()
    try:
        await_that(lambda: listed[0] >= IN_FLIGHT)
        assert len(store.surveyed) <= rounds._THREADS
        assert not go_on.wait(0.2)  # in this time it could have gone on listing
        assert listed[0] <= IN_FLIGHT + store.page_size
    finally:
        go_on.set()
        thread.join()
    assert keys(tables[0]) == sorted(store.objects)


def test_after_an_error_what_waits_is_not_looked_at_any_more(store):
    for number in range(1_000):
        store.put(f"{number:06}", [1])
    never = threading.Event()

    def fail_first(obj):
        if obj.key == "000000":
            raise ConnectorError("the endpoint does not answer")
        never.wait(0.1)  # as long as a request

    store.on_survey = fail_first
    with pytest.raises(ConnectorError, match="does not answer"):
        discovery(store).round()
    assert len(store.surveyed) < 10 * rounds._THREADS
    assert survey_threads() == []


FOUND = S3Object("in/ünï\n.json", 7, "e", MODIFIED)


def test_each_version_is_news_once_for_each_reason():
    noted = LeftOut()
    assert noted.add(FOUND, "corrupt", 5)
    assert not noted.add(FOUND, "corrupt", 6)
    assert noted.add(FOUND._replace(etag="f"), "corrupt", 7)
    assert noted.add(FOUND, "overwritten", 8)
    assert noted.objects()[0] == LeftOutObject(FOUND, "corrupt", 5)
    assert noted.count == len(noted.objects()) == 3


def test_the_last_ones_are_kept_and_all_are_news_once(monkeypatch):
    monkeypatch.setattr(rounds, "MOST", 3)
    noted = LeftOut()
    every = [FOUND._replace(key=str(number)) for number in range(5)]
    assert [[noted.add(obj, "gone", at_ms) for obj in every] for at_ms in (7, 8)] == [[True] * 5, [False] * 5]
    assert [noted_object.obj.key for noted_object in noted.objects()] == ["2", "3", "4"]


def test_a_restart_goes_on_from_what_can_be_read():
    noted, again = LeftOut(), LeftOut()
    noted.add(FOUND, "corrupt", 5)
    noted.add(FOUND._replace(key="b"), "overwritten", 6)
    lines = noted.to_bytes().splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["corrupt", "overwritten"]
    again.restore(b"\n".join([lines[0], b"{", b"[]", b'{"key": 1}', b"\xff", lines[1][:-3]]))
    assert again.objects() == noted.objects()[:1]
    assert again.count == 0
    assert not again.add(FOUND, "corrupt", 9)
