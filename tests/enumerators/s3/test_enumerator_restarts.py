"""The S3 enumerator over restarts, and over runs that share a state location."""

from functools import partial
from pathlib import Path

import pytest

from tests.enumerators.s3.objects import discovery
from tests.enumerators.s3.queries import all_once
from tests.support.clocks import Clock
from tidegate.enumerators.s3.discovery.left_out import LEFT_OUT, LeftOut
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.errors import CheckpointError, ConnectorError, CorruptDataError


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
        assert (clock.now, store.surveyed[-1]) == (0, key)
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
