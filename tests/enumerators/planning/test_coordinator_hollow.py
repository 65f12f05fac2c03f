"""The coordinator where long stretches hold no records to align by."""

from tests.support.logs import DRIFT_10, Logs, coordinator, drain
from tidegate.alignment.splits import Head
from tidegate.enumerators.planning.offset import INITIAL_OFFSET


class Ignoring(Logs):
    """Has records not to align by, with None as their time; counts the records that were looked at."""

    looked_at = 0

    def peek(self, positions, horizon):
        return {s: self._first(s, position) for s, position in positions.items()}

    def _first(self, split, position):
        for at, time_ms in enumerate(self.times[split][position:], position):
            self.looked_at += 1
            if time_ms is not None:
                return Head(at, time_ms)
        return None

    def latest(self, ends, horizon):
        return {}

    def lookup(self, event_time_ms, splits):
        timed = {s: [(p, t) for p, t in enumerate(self.times[s]) if t is not None] for s in splits}
        return {s: next((Head(p, t) for p, t in records if t >= event_time_ms), None) for s, records in timed.items()}


def test_a_long_stretch_of_ignored_records_is_looked_through_once_also_across_a_restart():
    logs = Ignoring(a=[5, *[None] * 3000], b=[*range(100)])
    run = coordinator(logs, watermarks=DRIFT_10)
    records, end = drain(run, INITIAL_OFFSET)
    assert (end["positions"]["a"], end["hollow"]) == (3001, {"a": 1})
    once = logs.looked_at
    assert once < 12 * 3_000  # the search for the last record is the price: no source looks from its end
    for plan_again in (run, coordinator(logs, watermarks=DRIFT_10)):
        logs.times["a"] += [None] * 10
        records, end = drain(plan_again, end)
        assert [position for split, position in records if split == "a"] == [*range(len(logs.times["a"]))][-10:]
    assert logs.looked_at < once + 200


def test_what_was_left_out_is_looked_at_again_with_other_options():
    logs = Ignoring(a=[None] * 3000, b=[*range(100)])
    _, end = drain(coordinator(logs, watermarks=DRIFT_10, options_digest="by the header att"), INITIAL_OFFSET)
    assert end["hollow"] == {"a": 0}
    logs.times["a"] = [50] * 3000
    logs.times["b"] += range(100, 1000)
    same = drain(coordinator(logs, watermarks=DRIFT_10, options_digest="by the header att"), end)[1]
    assert same["positions"]["b"] == 1000
    other = drain(coordinator(logs, watermarks=DRIFT_10, options_digest="by the header at"), end)[1]
    assert other["positions"]["b"] < 200
