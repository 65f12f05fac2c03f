"""The S3 enumerator while a round of discovery takes long, fails or is ended."""

import socket
import subprocess
import sys
import threading

import pytest

from tests.enumerators.s3.queries import all_once, discovery_threads
from tests.support.waiting import await_that
from tidegate.enumerators.s3.discovery import rounds


def test_a_later_round_that_takes_long_goes_on_beside_the_plans(query, store, monkeypatch):
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
    assert one.batches == [[1], [100], []]
    known = store.rounds
    assert known == 2
    go_on.set()
    await_that(one.source._rounds._round.done)
    one.pass_time()
    one.drain()
    assert store.rounds == known
    assert one.delivered == all_once(one)


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
