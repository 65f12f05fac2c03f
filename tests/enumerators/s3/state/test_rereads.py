"""Requests to read chunks again: each is taken exactly once, whenever the query is killed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.enumerators.s3.objects import CHUNK_BYTES, Store, chunk_table
from tests.enumerators.s3.queries import LATER_S, Query
from tidegate.enumerators.s3.state.rereads import RereadRequests, request_reread
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.objects.values import Chunk


def new_query(folder):
    """Return a query that has read two objects."""
    store = Store()
    store.put("a", [1], [10])
    store.put("b", [5])
    made = Query(store, folder, drift_ms=2)
    made.drain()
    return made


def ask(query, number, key):
    """Request an object again; the number distinguishes the request from others."""
    obj = query.store.objects[key]
    chunks = [
        Chunk(*obj, CHUNK_BYTES * at, CHUNK_BYTES * (at + 1), 1, min(times), max(times))
        for at, times in enumerate(query.store.times[key])
    ]
    return request_reread(query.source._folder.ledger, chunk_table(chunks), number)


@pytest.fixture
def query(tmp_path):
    made = new_query(tmp_path / "state")
    yield made
    made.stop()


def test_what_is_asked_for_is_read_once_more_behind_the_watermark_and_then_forgotten(query):
    name = ask(query, 1, "a")
    assert not query.batch()  # not before the next round
    query.pass_time()
    query.drain()
    assert query.batches[-1] == [1, 10]
    assert query.run.source_progress()["lateRowsTotal"] > 0
    assert query.delivered == Counter({("a", 0): 2, ("a", 10): 2, ("b", 0): 1})
    assert query.offset["enumerator"]["rereads"] == {name: 2}
    query.store.put("c", [20])
    query.pass_time()
    query.drain()
    query.store.put("d", [30])
    query.pass_time()
    query.drain()
    assert "rereads" not in query.offset["enumerator"]
    assert name not in query.files()


def test_a_request_stays_until_a_stored_offset_names_what_its_manifest_was_merged_into(query):
    name = ask(query, 1, "b")
    requests = RereadRequests(query.source._folder.ledger, {})
    requests.take(name, 7)
    for number, live in ((6, {8}), (7, {7}), (7, {7, 8})):
        requests.stored(number, live)
        assert name in query.files()
        assert requests.snapshot() == {name: 7}
    requests.stored(8, {8})
    assert name not in query.files()
    assert requests.snapshot() == {}


def test_a_query_that_cleans_reads_nothing_again(tmp_path):
    store, cleaned = Store(), []
    store.put("a", [1])
    query = Query(store, tmp_path / "state", clean=lambda obj: cleaned.append(obj.key) or True)
    try:
        query.batch()
        name = ask(query, 1, "a")
        query.pass_time()
        end = query.plan()
        query.source._cleaning._run.result(30)
        assert (cleaned, end["enumerator"].get("rereads")) == (["a"], None)
        assert "clean" in end["enumerator"]  # so that nobody requests them
        assert name in query.files()
    finally:
        query.stop()


def test_cleaning_begins_only_when_nothing_is_to_be_read_again(tmp_path):
    query = new_query(tmp_path / "state")
    try:
        ask(query, 1, "b")
        query.pass_time()
        query.offset = query.plan()
        query.fields["clean"] = lambda obj: True
        query.restart()
        with pytest.raises(OptionError, match="cleanSource is set while objects are to be read again"):
            query.plan()
    finally:
        query.kill()


@given(st.lists(st.sampled_from(["ask", "plan", "batch", "time", "kill", "stop"]), max_size=14))
def test_each_request_is_taken_exactly_once_whenever_the_query_ends(tmp_path_factory, steps):
    query = new_query(tmp_path_factory.mktemp("state"))
    query.later_s = LATER_S
    expected = Counter(query.delivered)
    try:
        for number, step in enumerate(steps):
            match step:
                case "ask":
                    ask(query, number, "b")
                    expected["b", 0] += 1
                case "plan":
                    query.plan()
                case "batch":
                    query.batch()
                case "time":
                    query.pass_time()
                case "kill":
                    query.restart()
                    query.plan()
                case "stop":
                    query.stop()
                    query.plan()
        query.pass_time()
        query.drain()
        assert query.delivered == expected
    finally:
        query.stop()


def test_a_run_that_could_not_read_its_memory_at_once_knows_what_was_taken(query, monkeypatch):
    ask(query, 1, "a")
    query.pass_time()
    end = query.plan()
    query.deliver(end, query.tasks(end))
    query.restart()

    def unreachable(*_):
        raise ConnectorError("the state location does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(SeenObjects, "restored", unreachable)
        with pytest.raises(ConnectorError):
            query.plan()
    query.drain()
    assert query.delivered == Counter({("a", 0): 2, ("a", 10): 2, ("b", 0): 1})
