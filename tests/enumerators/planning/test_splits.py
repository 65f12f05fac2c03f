"""The splits of a run, as plans find them."""

from tests.support.logs import Clock, Logs
from tidegate.alignment.plan import Progress
from tidegate.alignment.splits import Extent
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.splits import Splits


def splits_of(logs, clock=None, **settings):
    known = {"discovery_interval_s": 1, "idle_timeout_s": 5, "fail_on_data_loss": True, **settings}
    return Splits(logs, RunLog("memory"), (clock or Clock()).clocks, **known)


def test_new_splits_come_with_their_starts_and_later_ones_are_added():
    logs, clock = Logs(a=[1, 2]), Clock()
    splits = splits_of(logs, clock)
    first = splits.find(Offset(), bounded=False)
    assert (first.progress.positions, first.starts, first.added) == ({"a": 0}, {"a": 0}, ())
    logs.times["b"] = [3]
    clock.sleep(1)
    then = splits.find(Offset("memory", first.progress), bounded=False)
    assert (then.progress.positions, then.starts, then.added) == ({"a": 0, "b": 0}, {"b": 0}, ["b"])


def test_a_bounded_run_ends_at_what_there_was_at_its_begin():
    logs = Logs(a=[1, 2], b=[1, 2, 3])
    logs.ends = {"b": 1}
    splits = splits_of(logs)
    before = splits.find(Offset(), bounded=True).progress
    logs.times["a"] += [3, 4]
    current = splits.find(Offset("memory", before), bounded=True)
    assert (current.extents["a"], current.ends, current.readable) == (Extent(0, 2, more=True), {"a": 2, "b": 1}, 3)


def test_of_splits_that_come_and_go_for_ever_nothing_is_kept():
    logs, clock = Logs(), Clock()
    logs.forget = list
    splits, before = splits_of(logs, clock), Offset()
    for number in range(20):
        logs.times = {f"split-{number}": [number]}
        clock.sleep(2)
        current = splits.find(before, bounded=False)
        assert (current.progress.positions, current.has_forgotten) == ({f"split-{number}": 0}, number > 0)
        before = Offset("memory", current.progress)
    assert splits.stops == {"split-19": None}


def test_a_split_is_idle_once_it_has_had_nothing_to_read_for_the_timeout():
    logs, clock = Logs(a=[1], b=[1]), Clock()
    splits, before = splits_of(logs, clock), Offset("memory", Progress({"a": 1, "b": 0}))
    assert splits.find(before, bounded=False).idle == set()
    clock.sleep(5)
    assert splits.find(before, bounded=False).idle == {"a"}


def test_a_batch_query_reads_every_split_from_its_start_to_its_stop_or_its_end():
    logs = Logs(a=[1, 2], b=[1, 2, 3], c=[])
    logs.begins, logs.ends = {"a": 1}, {"b": 2}
    ranges = splits_of(logs).everything()
    assert [(r.split_id, r.start, r.end) for r in ranges] == [("a", 1, 2), ("b", 0, 2)]
