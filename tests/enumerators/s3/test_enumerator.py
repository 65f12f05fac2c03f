"""The S3 enumerator: the life of manifests, long rounds, restarts, and files that it no longer needs."""

import socket
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.enumerators.s3.objects import MODIFIED, discovery, enumerator
from tests.enumerators.s3.queries import LATER_S, MOST_MANIFESTS, all_once, discovery_threads, open_ledger
from tests.support.command import await_that
from tests.support.logs import Clock
from tidegate.alignment.budget import Budget
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.s3.discovery import rounds
from tidegate.enumerators.s3.discovery.listing import ListingRules, ObjectListing
from tidegate.enumerators.s3.discovery.rounds import LEFT_OUT, LeftOut
from tidegate.enumerators.s3.notifications.queue import NotificationQueue
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import OFFSETS_REMEMBERED
from tidegate.errors import CheckpointError, ConnectorError, CorruptDataError, DeadlineError
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore


def test_a_manifest_is_a_split_that_is_read_in_order_of_time_then_retired_and_forgotten(query, store, holds_group):
    store.put("b", [30], [10])
    store.put("a", [20], [None])
    one = query(drift_ms=1)
    one.drain()
    assert one.batches == [[None, 10], [20], [30]]
    assert one.manifests == ["00000001-" + one.manifests[0][9:]]
    one.pass_time()
    store.put("c", [40])
    one.drain()
    # In a group it is the place at which the source waits, until another one is read.
    assert [name[:8] for name in one.manifests] == ["00000001"] * holds_group + ["00000002"]
    one.pass_time()
    store.put("d", [50])
    one.drain()
    assert [name[:8] for name in one.manifests] == ["00000002"] * holds_group + ["00000003"]
    assert one.delivered == all_once(one)


def test_the_report_says_by_how_much_a_batch_passes_its_bound(query, store):
    store.put("wide", [MODIFIED, MODIFIED + 70])
    store.put("narrow", [MODIFIED + 5], [MODIFIED + 60])
    one = query(drift_ms=10)
    overshoots = []
    while one.batch():
        report = one.run.source_progress()
        overshoots.append((report["bound"] - MODIFIED, report.get("overshoot", 0)))
    assert overshoots[:2] == [(10, 60), (70, 0)]


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


def test_a_later_round_that_takes_long_goes_on_beside_the_plans(query, store, monkeypatch, holds_group):
    monkeypatch.setattr(rounds, "_PATIENCE_S", 0.01)
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
    forgotten = [[]] * (not holds_group)
    assert one.batches == [[1], [100], *forgotten]
    known = store.rounds
    assert known == 2
    go_on.set()
    await_that(one.source._rounds._round.done)
    one.pass_time()
    one.drain()
    assert store.rounds == known
    assert one.delivered == all_once(one)


@pytest.mark.parametrize("holds_group", [True], indirect=True)
def test_a_manifest_is_settled_once_a_round_that_began_after_it_was_read_has_found_nothing(query, store, monkeypatch):
    monkeypatch.setattr(rounds, "_PATIENCE_S", 0.01)
    store.put("a", [1], [100])
    one = query(drift_ms=1)

    def settled(*, look=True):
        if look:
            one.pass_time()
        one.batch()
        return one.source.extents(one.source.live)[one.manifests[-1]].settled

    one.batch()
    go_on = threading.Event()
    store.on_page = lambda _: go_on.wait(60)
    settled()  # begins a round, and reads the second chunk
    go_on.set()
    await_that(one.source._rounds._round.done)
    assert not settled()  # that round began before
    monkeypatch.setattr(rounds, "_PATIENCE_S", 60)
    assert settled()
    store.put("b", [90])
    settled()
    assert not settled(look=False)
    assert settled()
    assert one.delivered == all_once(one)


def test_a_manifest_is_not_settled_where_a_chunk_whose_time_has_come_was_read_after_the_round(store):
    store.put("a", [5], [60])
    with closing(enumerator(store, None, holds_group=True)) as source:

        def extent(position, held_from_ms):
            source.begin_plan({split: position}, held_from_ms)
            found = source.extents([split])[split]
            return found.end, found.settled

        (split,) = source.discover()
        assert extent(1, 50) == (1, False)
        source.discover()
        assert extent(1, 50) == (1, True)
        assert extent(2, 100) == (2, False)
        source.discover()
        assert extent(2, 100) == (2, True)


def test_a_round_that_times_out_is_a_failure_and_not_one_that_takes_long(query, store):
    store.put("a", [1])

    def fail(_):
        raise TimeoutError("a socket of the listing")

    store.on_page = fail
    with pytest.raises(TimeoutError, match="a socket"):
        query().plan()


@pytest.mark.parametrize("during", ["page", "survey"])
def test_closing_ends_a_round_soon(query, store, monkeypatch, during):
    monkeypatch.setattr(rounds, "_PATIENCE_S", 0.01)
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
    one.stop()
    looked_at = len(store.surveyed)
    go_on.set()
    await_that(lambda: not discovery_threads())
    assert len(store.surveyed) <= looked_at + 16


HANG = """
import signal, sys
from contextlib import closing
from tests.enumerators.s3.objects import Store, discovery
from tidegate import S3Source
from tidegate.enumerators.s3.enumerator import S3Enumerator

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
                planner.terminate()
                assert planner.wait(30) == 0


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


def test_the_same_query_restarts_at_once_whether_it_was_killed_or_stopped(query, store):
    clock = Clock()
    store.put("a", [1], [100])
    one = query(drift_ms=1, lease=lambda root: Lease(root, clocks=clock.clocks))
    one.batch()
    for end, key in ((one.kill, "b"), (one.stop, "c")):
        end()
        store.put(key, [50])
        one.batch()
        assert (round(clock.now), store.surveyed[-1]) == (0, key)
    assert store.surveyed == ["a", "b", "c"]


def test_two_live_queries_cannot_share_a_location(query, store):
    # The lease is short, because the second query waits until it sees the lease renewed.
    quick = {"lease": lambda root: Lease(root, lease_s=5)}
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
        one.source._folder._lease.renew()
    store.put("b", [1])
    one.pass_time()
    names = one.files()
    with pytest.raises(ConnectorError, match="was taken over by another run"):
        one.plan()
    assert one.files() == names


def test_what_was_left_out_and_why_is_noted_and_outlives_a_restart(query, store):
    def judge(obj):
        if obj.key == "corrupt":
            raise CorruptDataError("no JSON")

    store.on_survey = judge
    store.put("a", [1])
    store.put("corrupt", [1])
    one = query(discover=partial(discovery, ignore_corrupt=True))
    one.drain()
    store.put("a", [2])
    one.restart()
    one.drain()
    for _ in range(3):
        one.pass_time()
        one.batch()
    noted = LeftOut()
    noted.restore(one.source._folder.ledger.noted(LEFT_OUT))
    assert [(left_out.obj.key, left_out.reason) for left_out in noted.objects()] == [
        ("corrupt", "corrupt"),
        ("a", "overwritten"),
    ]
    assert one.run.source_progress()["metrics"]["numFilesLeftOut"] == 1  # by this run


def test_orphans_are_swept_and_nothing_that_an_offset_names(query, store):
    one = query(drift_ms=1)
    one.later_s = LATER_S
    open_ledger(one.folder).write("schema", b"of the source's own")
    one.batch()
    orphans = ["00000007-0123456789abcdef", "seen-0123"]
    for name in orphans:
        one.source._folder.ledger.write(name, b"left by a run that was killed")
    for number in range(30):
        store.put(f"{number:02}", [number], [1_000 - number])
        one.pass_time()
        one.batch()
        names = one.files()
        assert {*one.manifests, *one.offset["enumerator"]["seen"]["runs"]} <= set(names)
        assert not set(orphans) & set(names)
        assert len(names) <= MOST_MANIFESTS + 6 * OFFSETS_REMEMBERED
        if number % 4 == 3:
            one.restart()
    for _ in range(4):  # in a group, what is ahead of the last object waits until the path is idle
        one.drain()
        one.pass_time()
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
    for run in (first, second):
        assert run.delivered == all_once(run)


def test_objects_are_cleaned_when_all_of_them_is_delivered_also_after_kills(query, store):
    def clean(obj):
        if one.silent:
            raise DeadlineError("the endpoint does not answer")
        if store.chunks_of(obj.key) - one.delivered:
            too_early.append(obj.key)
        store.objects.pop(obj.key, None)
        return True

    one, too_early = query(drift_ms=7, clean=clean, lease=lambda root: Lease(root, clocks=one.clock.clocks)), []
    one.later_s = LATER_S
    for number in range(12):
        store.put(f"{number * 7 % 10}-{number}", [number], [3 * number, None], [60 - number])
        one.pass_time()
        one.silent = number % 5 == 2
        end = one.plan(Budget(rows=2))
        tasks = one.tasks(end)
        if number % 4 == 1:  # killed before Spark has stored the offset
            one.restart()
            continue
        if number % 4 == 3:  # killed before the batch is committed
            one.restart()
            assert one.tasks(end) == tasks
        if end != one.offset:
            one.deliver(end, tasks)
    one.silent = False
    one.restart(bounded=True)
    one.drain(Budget(rows=20))
    one.stop()
    assert one.delivered == all_once(one)
    assert too_early == []
    assert not store.objects


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


def test_what_the_last_offset_names_stays_while_rounds_find_objects_without_a_chunk(query, store):
    one = query()
    one.later_s = LATER_S
    store.put("a", [1])
    one.drain()
    for number in range(2 * OFFSETS_REMEMBERED):
        store.put(f"empty-{number}", modified_ms=MODIFIED + number)
        one.pass_time()
        one.batch()
    one.restart()
    store.put("b", [2])
    one.drain()
    assert one.delivered == all_once(one)


@pytest.mark.parametrize(
    ("ask", "target"),
    [
        (lambda config: next(ObjectListing(config, "data", ListingRules()).pages()), "list s3://data/"),
        (lambda config: ObjectStore(config, "data").find("key"), "look at s3://data/key"),
        (
            lambda config: NotificationQueue(config, "https://127.0.0.1:9/1/q").state(),
            "look at the queue https://127.0.0.1:9/1/q",
        ),
        (lambda config: open_folder("s3://data/state", config).read("name"), "read the state location s3://data/state"),
    ],
    ids=["listing", "object", "queue", "ledger"],
)
def test_it_is_named_in_a_sentence(ask, target, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "no-token"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    config = S3ConnectionConfig("https://127.0.0.1:9", "us-east-1", deadline_s=0.3)
    with pytest.raises(ConnectorError, match=rf"^cannot {target}.*no-token"):
        ask(config)
