"""The S3 enumerator over whole lives of a query, whatever happens in them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.s3.objects import Store
from tests.enumerators.s3.queries import LATER_S, Query, all_once
from tests.support.logs import Clock
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.enumerators.s3 import cleaning as source_cleaning
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.errors import DeadlineError

steps = st.lists(
    st.fixed_dictionaries(
        {
            "puts": st.lists(
                st.lists(st.lists(st.none() | st.integers(0, 60), min_size=1, max_size=3), max_size=3), max_size=3
            ),
            "passes": st.booleans(),
            "silent": st.booleans(),
            "budget": st.sampled_from([UNLIMITED, Budget(rows=1), Budget(rows=4), Budget(files=1), Budget(bytes=25)]),
            "ends": st.sampled_from(
                ["well"] * 6 + ["lost", "stored", "replayed twice", "restart", "bounded restart", "stop"]
            ),
        }
    ),
    max_size=30,
)


def own_time(root):
    # A run that is killed before its first offset is stored leaves a lease that has to end by itself.
    return Lease(root, clocks=Clock().clocks)


@settings(max_examples=50)
@given(steps, st.sampled_from([None, 1, 7, 30]))
def test_whatever_happens_every_chunk_is_delivered_once(life, drift_ms):
    with tempfile.TemporaryDirectory() as folder:
        query = Query(Store(), Path(folder), drift_ms, lease=own_time)
        try:
            live(query, life)
        finally:
            query.kill()


@settings(max_examples=50)
@given(steps, st.sampled_from([None, 1, 7, 30]), st.sampled_from([1, 2, 1024]))
def test_whatever_happens_objects_are_cleaned_when_all_of_them_is_delivered_and_then_all_are(life, drift_ms, at_once):
    store = Store()

    def clean(obj):
        if query.silent:
            raise DeadlineError("the endpoint does not answer")
        if store.chunks_of(obj.key) - query.delivered:
            too_early.append(obj.key)
        store.objects.pop(obj.key, None)
        return True

    too_early = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_cleaning, "_CHUNKS_AT_ONCE", at_once)
        patch.setattr(source_cleaning, "_MOST_MANIFESTS", 2)
        query = Query(store, Path(folder), drift_ms, lease=own_time, clean=clean)
        query.later_s = LATER_S
        try:
            live(query, life)
            query.stop()
        finally:
            query.kill()
    assert too_early == []
    assert [key for key in store.objects if store.chunks_of(key)] == []


def live(query, life):
    objects = 0
    for step in life:
        for chunks in step["puts"]:
            query.store.put(f"{objects * 7 % 10}-{objects}", *chunks)
            objects += 1
        query.silent = step["silent"]
        if step["passes"]:
            query.pass_time()
        end = query.plan(step["budget"])
        if step["ends"] == "lost":  # before Spark has stored the offset
            query.tasks(end)
            query.restart()
            continue
        tasks = query.tasks(end)
        if step["ends"] in {"stored", "replayed twice"}:
            for _ in range(1 + (step["ends"] == "replayed twice")):
                query.restart()
                assert query.tasks(end) == tasks
        if end != query.offset:
            query.deliver(end, tasks)
        if step["ends"].endswith("restart"):
            query.restart(bounded=step["ends"].startswith("bounded"))
        elif step["ends"] == "stop":
            query.stop()
        assert not query.delivered - all_once(query)
    query.silent = False
    query.restart(bounded=True)
    query.drain(Budget(rows=20))
    assert query.delivered == all_once(query)
