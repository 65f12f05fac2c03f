"""The S3 enumerator: the life of manifests, over restarts, merges and rounds that take long or fail."""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.logs import Clock
from tests.enumerators.objects import MODIFIED, Store, discovery, enumerator
from tests.waiting import await_that
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.splits import SplitRange
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators import s3_enumerator, source_cleaning
from tidegate.enumerators.checkpoint import INITIAL_OFFSET
from tidegate.enumerators.coordinator import CoordinatorSettings, SourceCoordinator
from tidegate.enumerators.lease import LEASE_S, Lease
from tidegate.enumerators.ledger import Ledger
from tidegate.enumerators.left_out import LEFT_OUT, LeftOut
from tidegate.enumerators.s3_enumerator import S3Enumerator
from tidegate.errors import CheckpointError, ConnectorError, CorruptDataError, DeadlineError
from tidegate.readers.s3_config import S3ConnectionConfig

DISCOVERY_S = 30
LATER_S = 2 * s3_enumerator._ORPHAN_S
MOST_MANIFESTS = s3_enumerator._MOST_MANIFESTS
MOST_BYTES = 4096


def open_ledger(folder, later_s=0.0):
    return Ledger(str(folder), S3ConnectionConfig(), wall_clock=lambda: time.time() + later_s)


def die(source):
    """End the threads of a run as a SIGKILL would: nothing is released, nothing is written."""
    source._discovery.stop()
    if source._pool is not None:
        source._pool.shutdown()
    if source._cleaning is not None:
        source._cleaning._ended.set()
        source._cleaning._dispatcher.shutdown()
        source._cleaning._threads.shutdown()
    if source._lease is not None:
        source._lease._ended.set()
        if source._lease._thread is not None:
            source._lease._thread.join()


class Query:
    """A query over its checkpoint: runs come and go, the stored offsets stay.

    delivered: how often each chunk was, by key and start.
    silent: may be set; the endpoint cleans nothing.
    """

    def __init__(self, store, folder, drift_ms=None, lease=Lease, **fields):
        self.store, self.folder, self.fields, self.clock = store, folder, fields, Clock()
        self.strategy = WatermarkStrategy()
        if drift_ms is not None:
            self.strategy = self.strategy.with_watermark_alignment(max_drift=timedelta(milliseconds=drift_ms))
        self.offset, self.delivered = INITIAL_OFFSET, Counter()
        self.later_s, self.lease, self.silent = 0.0, lease, False
        self.source = self.run = None
        self.batches = []

    def begin(self, *, bounded=False):
        def open_enumerator(state):
            ledger = open_ledger(self.folder, self.later_s)
            ledger.lease = lambda: self.lease(ledger._root)
            self.source = S3Enumerator(discovery(self.store), ledger, state, **self.fields)
            return self.source

        known = CoordinatorSettings(self.strategy, discovery_interval_s=DISCOVERY_S)
        self.run = SourceCoordinator("s3", open_enumerator, known, cores=2, clocks=self.clock.clocks)
        if bounded:
            self.run.bound_run()

    def kill(self):
        if self.source is not None:
            die(self.source)
        self.source = self.run = None

    def stop(self):
        if self.run is not None:
            self.run.close()
        self.source = self.run = None

    def restart(self, **how):
        self.kill()
        self.begin(**how)

    def plan(self, budget=UNLIMITED):
        """Return the next offset as it is read from a checkpoint."""
        if self.run is None:
            self.begin()
        end = self.run.latest_offset(self.offset, budget)
        text = json.dumps(end)
        assert len(text) < MOST_BYTES
        assert len(end["positions"]) <= MOST_MANIFESTS
        return json.loads(text)

    def tasks(self, end):
        return self.run.tasks(self.offset, end)

    def deliver(self, end, tasks):
        ranges = [(r, chunks) for task in tasks for r, chunks in zip(task.ranges, task.details, strict=True)]
        for wanted, chunks in ranges:
            assert len(chunks) == wanted.end - wanted.start
            assert [*chunks] == sorted(chunks, key=lambda c: (c.min_ms is not None, c.min_ms or 0, c.key, c.start))
            self.delivered.update((chunk.key, chunk.start) for chunk in chunks)
        self.batches.append([chunk.min_ms for _, chunks in ranges for chunk in chunks])
        self.offset = end

    def batch(self, budget=UNLIMITED):
        """Take one batch; return whether there was one."""
        end = self.plan(budget)
        if end == self.offset:
            return False
        self.deliver(end, self.tasks(end))
        return True

    def drain(self, budget=UNLIMITED):
        while self.batch(budget):
            pass

    def pass_time(self):
        self.clock.sleep(DISCOVERY_S + 1)

    def files(self):
        """Return the names of what is stored for this query."""
        return self.source._ledger.names()

    @property
    def manifests(self):
        return sorted(self.offset.get("positions", {}))


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def query(store, tmp_path):
    made = []

    def make(**settings):
        made.append(Query(store, tmp_path / "state", **settings))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def all_once(query):
    return Counter(query.store.chunks())


def discovery_threads():
    return [t for t in threading.enumerate() if t.name.startswith(("tidegate-discovery", "tidegate-survey"))]


def test_a_manifest_is_a_split_that_is_read_in_order_of_time_then_retired_and_forgotten(query, store):
    store.put("b", [30], [10])
    store.put("a", [20], [None])
    one = query(drift_ms=1)
    one.drain()
    assert one.batches == [[None, 10], [20], [30]]
    assert one.manifests == ["00000001-" + one.manifests[0][9:]]
    one.pass_time()
    store.put("c", [40])
    one.drain()
    assert [name[:8] for name in one.manifests] == ["00000002"]
    assert one.delivered == all_once(one)


def test_new_objects_become_a_manifest_of_their_own_beside_what_is_unread(query, store):
    store.put("a", [10], [1_000])
    one = query(drift_ms=10)
    one.batch()
    store.put("b", [500])
    one.pass_time()
    one.batch()
    assert [name[:8] for name in one.manifests] == ["00000001", "00000002"]
    assert sorted(one.offset["positions"].values()) == [1, 1]
    one.drain()
    assert one.batches == [[10], [500], [1_000]]


def test_an_empty_bucket_has_no_manifest_and_its_first_offset_differs(query, store):
    one = query()
    assert one.batch()
    assert one.manifests == []
    assert not one.batch()
    store.put("a", [1])
    one.pass_time()
    one.drain()
    assert one.delivered == {("a", 0): 1}


def test_too_many_manifests_become_one_of_exactly_what_is_unread(query, store):
    one = query(drift_ms=1)
    for number in range(3 * MOST_MANIFESTS):
        store.put(f"{number:02}", [number], [1_000 - number])
        one.pass_time()
        one.batch(Budget(rows=1))
        assert len(one.manifests) <= MOST_MANIFESTS
    read, delivered = len(one.batches), set(one.delivered)
    one.drain()
    unread = [time_ms for batch in one.batches[read:] for time_ms in batch]
    assert unread == sorted(unread)
    assert set(one.delivered) - delivered
    assert one.delivered == all_once(one)


def test_an_idle_plan_changes_nothing_and_the_offset_stays(query, store):
    store.put("a", [1])
    one = query()
    one.drain()
    names = one.files()
    for _ in range(5):
        one.pass_time()
        one.batch()
        last = one.offset
    one.pass_time()
    assert one.plan() == last
    assert one.files() == names


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


def short_lease(root):
    # A run that is killed before its first offset is stored leaves a lease that has to end by itself.
    return Lease(root, lease_s=0.1, renewed_by_thread=False)


@settings(max_examples=50)
@given(steps, st.sampled_from([None, 1, 7, 30]))
def test_whatever_happens_every_chunk_is_delivered_once(life, drift_ms):
    with tempfile.TemporaryDirectory() as folder:
        query = Query(Store(), Path(folder), drift_ms, lease=short_lease)
        try:
            live(query, life)
        finally:
            query.kill()


@settings(max_examples=50)
@given(steps, st.sampled_from([None, 1, 7, 30]), st.sampled_from([1, 2, 1024]))
def test_whatever_happens_objects_are_cleaned_when_all_of_them_is_delivered_and_then_all_are(life, drift_ms, at_once):
    store = Store()

    def clean(found):
        if query.silent:
            raise DeadlineError("the endpoint does not answer")
        if store.chunks_of(found.key) - query.delivered:
            too_early.append(found.key)
        store.objects.pop(found.key, None)
        return True

    too_early = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_cleaning, "_CHUNKS_AT_ONCE", at_once)
        patch.setattr(source_cleaning, "_MOST_MANIFESTS", 2)
        query = Query(store, Path(folder), drift_ms, lease=short_lease, clean=clean)
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


def test_a_restart_reads_manifests_by_name_and_lists_only_what_is_new(query, store):
    for number in range(10):
        store.put(f"{number}", [number * 100])
    one = query(drift_ms=1)
    one.batch()
    surveyed, names = len(store.surveyed), one.manifests
    one.restart()
    one.batch()
    assert (len(store.surveyed), one.manifests) == (surveyed, names)
    one.drain()
    assert one.delivered == all_once(one)


@pytest.mark.parametrize(
    ("pattern", "harm", "sentence"),
    [
        ("0*", Path.unlink, r"has lost '00000001-.*', which the checkpoint names"),
        ("0*", lambda path: path.write_bytes(path.read_bytes()[:-1]), r"manifest '00000001-.*' .* is damaged"),
        ("seen-*", Path.unlink, r"has lost 'seen-.*', which the checkpoint names"),
        (
            "seen-*",
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            r"memory of discovered objects 'seen-.*' is damaged",
        ),
    ],
)
def test_a_restart_refuses_what_is_missing_or_damaged(query, store, tmp_path, pattern, harm, sentence):
    store.put("a", [1], [100])
    one = query(drift_ms=1)
    one.batch()
    (path,) = (tmp_path / "state" / "ledger").glob(f"*/{pattern}")
    path.chmod(0o600)
    harm(path)
    one.restart()
    with pytest.raises(CheckpointError, match=sentence):
        one.plan()


def test_a_batch_is_not_replayed_from_a_manifest_that_is_damaged(query, store, tmp_path):
    store.put("a", [1], [100])
    one = query(drift_ms=1)
    end = one.plan()
    (path,) = (tmp_path / "state" / "ledger").glob("*/0*")
    path.write_bytes(b"")
    one.restart()
    with pytest.raises(CheckpointError, match="is damaged"):
        one.tasks(end)


def test_the_same_query_restarts_at_once_whether_it_was_killed_or_stopped(query, store):
    store.put("a", [1])
    one = query()
    one.drain()
    for end in (one.kill, one.stop):
        end()
        begun = time.monotonic()
        one.batch()
        assert time.monotonic() - begun < LEASE_S / 6


def test_two_live_queries_cannot_share_a_location(query, store):
    # A short lease, for the second query waits until it sees it renewed.
    quick = {"lease": lambda root: Lease(root, lease_s=1)}
    store.put("a", [1])
    one, other = query(**quick), query(**quick)
    one.drain()
    with pytest.raises(ConnectorError, match="is in use by another query"):
        other.plan()
    one.pass_time()
    store.put("b", [1])
    one.drain()
    assert one.delivered == all_once(one)
    one.stop()
    other.drain()
    assert other.delivered == all_once(other)


def test_a_run_whose_checkpoint_another_run_took_over_writes_no_more(query, store):
    store.put("a", [1], [100])
    one = query(drift_ms=1)
    one.batch()
    second = query(drift_ms=1)
    second.offset = one.offset
    second.batch()
    with pytest.raises(ConnectorError, match="was taken over by another run"):
        one.source._lease.renew()
    store.put("b", [1])
    one.pass_time()
    names = one.files()
    with pytest.raises(ConnectorError, match="was taken over by another run"):
        one.plan()
    assert one.files() == names


def test_orphans_are_swept_and_nothing_that_an_offset_names(query, store):
    one = query(drift_ms=1)
    one.later_s = LATER_S
    open_ledger(one.folder).write("schema", b"of the source's own")
    one.batch()
    orphans = ["00000007-0123456789abcdef", "seen-0123"]
    for name in orphans:
        one.source._ledger.write(name, b"left by a run that was killed")
    for number in range(30):
        store.put(f"{number:02}", [number], [1_000 - number])
        one.pass_time()
        one.batch()
        names = one.files()
        assert {*one.manifests, *one.offset["enumerator"]["seen"]["runs"]} <= set(names)
        assert not set(orphans) & set(names)
        assert len(names) <= MOST_MANIFESTS + 6 * s3_enumerator._OFFSETS_REMEMBERED
        if number % 4 == 3:
            one.restart()
    one.drain()
    assert one.delivered == all_once(one)


def test_a_query_that_is_begun_later_in_a_location_sweeps_nothing_of_the_first(query, store):
    store.put("a", [1], [1_000])
    first, second = query(drift_ms=1), query(drift_ms=1)
    first.batch()
    first.stop()
    second.later_s = LATER_S
    for number in range(5):
        store.put(f"b{number}", [number])
        second.pass_time()
        second.drain()
    second.stop()
    first.drain()
    for each in (first, second):
        assert each.delivered == all_once(each)


def test_rounds_that_find_little_write_little(query, store):
    for number in range(3_000):
        store.put(f"{number:04}", [1])
    store.page_size = 1_000
    one = query()
    one.drain()
    before = {name: len(one.source._ledger.read(name)) for name in one.files()}
    base = [name for name in before if name.startswith("seen-")]
    for number in range(20):
        store.put(f"new-{number}", [1])
        one.pass_time()
        one.drain()
    written = {name: len(one.source._ledger.read(name)) for name in one.files() if name not in before}
    assert base[0] in one.offset["enumerator"]["seen"]["runs"]
    assert max(written.values()) < before[base[0]] / 20
    one.restart()
    one.drain()
    assert len(store.surveyed) == len(store.objects)


def test_what_was_left_out_and_why_is_noted_and_outlives_a_restart(query, store, monkeypatch):
    def judge(found):
        if found.key == "corrupt":
            raise CorruptDataError("no JSON")

    monkeypatch.setitem(globals(), "discovery", partial(discovery, ignore_corrupt=True))
    store.on_survey = judge
    store.put("a", [1])
    store.put("corrupt", [1])
    one = query()
    one.drain()
    store.put("a", [2])
    one.restart()
    one.drain()
    for _ in range(3):
        one.pass_time()
        one.batch()
    noted = LeftOut()
    noted.restore(one.source._ledger.noted(LEFT_OUT))
    assert [(each.found.key, each.reason) for each in noted.objects()] == [("corrupt", "corrupt"), ("a", "overwritten")]
    assert one.run.report()["metrics"]["numFilesLeftOut"] == 1  # by this run


def test_with_an_endpoint_that_cleans_nothing_the_offset_stays_small_and_later_all_is_cleaned(query, store):
    def clean(found):
        if one.silent:
            raise DeadlineError("the endpoint does not answer")
        return store.objects.pop(found.key) is not None

    one = query(clean=clean)
    one.silent = True
    for number in range(5 * MOST_MANIFESTS):
        store.put(f"{number:02}", [number])
        one.pass_time()
        one.batch()
    assert len(store.objects) == 5 * MOST_MANIFESTS
    assert len(one.offset["enumerator"]["clean"]) <= 2 * MOST_MANIFESTS
    one.silent = False
    one.restart(bounded=True)
    one.drain()
    one.stop()
    assert store.objects == {}


def test_what_is_cleaned_no_more_is_not_named_any_more(query, store):
    def clean(_):
        raise DeadlineError("the endpoint does not answer")

    one = query(clean=clean)
    store.put("a", [1])
    one.drain()
    store.put("b", [1])
    one.pass_time()
    one.drain()
    assert "clean" in one.offset["enumerator"]
    one.fields["clean"] = None
    one.restart()
    store.put("c", [1])
    one.drain()
    assert "clean" not in one.offset["enumerator"]
    assert one.delivered == all_once(one)


def test_what_an_hour_old_offset_names_outlives_a_restart_that_dies_before_it_stores_another(query, store):
    one = query(drift_ms=1)
    store.put("a", [1], [1_000])
    one.batch()
    one.later_s = LATER_S
    for number in range(3):
        store.put(f"b{number}", [2_000])
        one.restart()
        one.plan()
    one.restart()
    one.drain()
    assert one.delivered == all_once(one)


def test_what_the_last_offset_names_stays_while_rounds_find_objects_without_a_chunk(query, store):
    one = query()
    one.later_s = LATER_S
    store.put("a", [1])
    one.drain()
    for number in range(2 * s3_enumerator._OFFSETS_REMEMBERED):
        store.put(f"empty-{number}", modified_ms=MODIFIED + number)
        one.pass_time()
        one.batch()
    one.restart()
    store.put("b", [2])
    one.drain()
    assert one.delivered == all_once(one)


def test_the_age_limit_may_be_set_anew_by_a_restart(query, store, monkeypatch):
    one = query()
    store.put("a", [1])
    one.drain()
    monkeypatch.setitem(globals(), "discovery", partial(discovery, max_age_ms=1_000))
    one.restart()
    store.put("b", [1])
    one.drain()
    one.pass_time()
    store.put("old", [1], modified_ms=MODIFIED - 1_001)
    one.drain()
    assert one.delivered == {("a", 0): 1, ("b", 0): 1}


def test_objects_that_are_there_at_the_beginning_may_be_left_out_for_ever(query, store):
    store.put("a", [1])
    one = query(include_existing=False)
    one.drain()
    store.put("b", [1])
    one.restart()
    one.drain()
    store.put("c", [1])
    one.pass_time()
    one.drain()
    assert one.delivered == {("b", 0): 1, ("c", 0): 1}


def test_a_bounded_run_waits_for_its_first_round_however_long_it_takes(query, store, monkeypatch):
    monkeypatch.setattr(s3_enumerator, "_PATIENCE_S", 0.01)
    go_on = threading.Event()
    store.put("a", [1])
    store.on_page = lambda _: go_on.wait(60)
    one = query()
    one.begin(bounded=True)
    threading.Timer(0.2, go_on.set).start()
    one.drain()
    assert one.delivered == all_once(one)


def test_a_later_round_that_takes_long_goes_on_beside_the_plans(query, store, monkeypatch):
    monkeypatch.setattr(s3_enumerator, "_PATIENCE_S", 0.01)
    store.put("a", [1], [100])
    one = query(drift_ms=1)
    one.batch()
    go_on = threading.Event()
    store.on_page = lambda _: go_on.wait(60)
    store.put("b", [50])
    one.pass_time()
    one.batch()
    one.pass_time()
    one.batch()
    assert one.batches == [[1], [100], []]
    rounds = store.rounds
    assert rounds == 2
    go_on.set()
    await_that(one.source._round.done)
    one.pass_time()
    one.drain()
    assert store.rounds == rounds
    assert one.delivered == all_once(one)


def test_a_round_that_fails_ends_the_plan_and_the_next_run_finds_everything(query, store):
    store.put("a", [1])
    one = query()
    one.drain()
    for key in "bcd":
        store.put(key, [2])

    def fail(_):
        raise ConnectorError("the endpoint refused the listing")

    store.on_page = fail
    for _ in range(2):
        one.pass_time()
        with pytest.raises(ConnectorError, match="refused the listing"):
            one.plan()
    store.on_page = lambda _: None
    one.restart()
    one.drain()
    assert one.delivered == all_once(one)


def test_a_round_that_times_out_is_a_failure_and_not_one_that_takes_long(query, store):
    store.put("a", [1])

    def fail(_):
        raise TimeoutError("a socket of the listing")

    store.on_page = fail
    with pytest.raises(TimeoutError, match="a socket"):
        query().plan()


@pytest.mark.parametrize("during", ["page", "survey"])
def test_closing_during_a_round_ends_soon_and_leaves_no_thread(query, store, monkeypatch, during):
    monkeypatch.setattr(s3_enumerator, "_PATIENCE_S", 0.01)
    one = query()
    one.batch()
    for number in range(5_000):
        store.put(f"{number:04}", [1])
    begun, go_on = threading.Event(), threading.Event()

    def hold(_):
        begun.set()
        go_on.wait(60)

    setattr(store, f"on_{during}", hold)
    one.pass_time()
    one.batch()
    assert begun.wait(60)
    at = time.monotonic()
    one.stop()
    assert time.monotonic() - at < 5
    looked_at = len(store.surveyed)
    go_on.set()
    await_that(lambda: not discovery_threads())
    assert len(store.surveyed) <= looked_at + 16
    assert [t for t in threading.enumerate() if t.name == "tidegate-lease"] == []


HANG = """
import signal, sys
from contextlib import closing
from tests.enumerators.objects import Store, discovery
from tidegate import S3Source
from tidegate.enumerators.s3_enumerator import S3Enumerator

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # as a planner has it
what, endpoint = sys.argv[1:]
source = S3Source(path="s3://bucket/in", endpoint=endpoint, access_key="a", secret_key="b", region="us-east-1")
enumerator = source.enumerator(None)
if what == "survey":
    store = Store()
    store.put("a", [1])
    store.on_survey = lambda _: source._store().find("a")
    enumerator = S3Enumerator(discovery(store), None, None)
with closing(enumerator):
    enumerator.discover()
"""


@pytest.mark.parametrize("what", ["listing", "survey"])
def test_a_planner_that_is_ended_does_not_wait_for_an_endpoint_that_is_silent(what):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([sys.executable, "-c", HANG, what, address]) as planner:
            asked, _ = silent.accept()
            with asked:
                assert asked.recv(100)
                begun = time.monotonic()
                planner.terminate()
                assert planner.wait(30) == 0
                assert time.monotonic() - begun < 10


def test_a_batch_query_needs_no_ledger(store):
    store.put("b", [2])
    store.put("a", [1], [3])
    source = enumerator(store, None)
    (split,) = source.discover()
    assert [c.min_ms for c in source.details(SplitRange(split, 0, 3))] == [1, 2, 3]
    source.close()
    await_that(lambda: not discovery_threads())


def test_costs_are_rows_bytes_and_objects(store):
    store.put("a", [1, 2], [3])
    store.put("b", [9, None, 9])
    source = enumerator(store, None)
    (split,) = source.discover()
    cost = source.cost({split: SplitRange(split, 0, 3)})
    assert (cost.rows, cost.bytes, cost.files) == (6, 30, 2)
    source.close()
