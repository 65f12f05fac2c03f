"""The S3 enumerator: the life of manifests."""

from tests.enumerators.s3.objects import MODIFIED
from tests.enumerators.s3.queries import all_once


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
