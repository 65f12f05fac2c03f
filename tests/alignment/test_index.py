"""The search for the first record at or after a time, in honest, blind and lying indexes."""

from bisect import bisect_left

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.alignment.model import Entry, KafkaLike, Log, PeekOnly, World, log
from tidegate.alignment.budget import Budget
from tidegate.alignment.cuts import Bisection, Cutter, Span
from tidegate.alignment.index import KnownHeads, TimeIndex
from tidegate.alignment.plan import Limits
from tidegate.alignment.splits import Extent, Head
from tidegate.errors import ContractError


def cutter(source):
    index = TimeIndex(source)
    heads = index.heads(dict.fromkeys(source.logs, 0))
    spans = {s: Span(head, 0, source.logs[s].end) for s, head in heads.items() if head is not None}
    return Cutter(index, spans), index


class TestTimeIndex:
    def test_what_is_read_and_who_is_gone_is_forgotten(self):
        index = TimeIndex(KafkaLike({"a": log(5, 6), "b": log(7)}))
        index.heads({"a": 0, "b": 0})
        index.heads({"a": 1})
        index.begin_plan({"a": 1}, {"a": Extent(0, 9)})
        index.heads({"a": 1})
        assert index.peeks == 2
        index.heads({"a": 0, "b": 0})
        assert index.peeks == 3

    @pytest.mark.parametrize("now", [Extent(0, 6, epoch=1), Extent(0, 9, epoch=2)])
    def test_what_was_seen_of_a_log_that_is_cut_or_of_another_epoch_is_forgotten(self, now):
        logs = {"a": Log([Entry(0, 5), *(Entry(position, 9, seen=False) for position in range(1, 9))], end=9)}
        index = TimeIndex(KafkaLike(logs))
        index.begin_plan({"a": 1}, {"a": Extent(0, 9, epoch=1)})
        assert index.heads({"a": 1}) == {"a": None}
        assert index.latest({"a": Extent(0, 9)}) == {"a": 5}
        logs["a"] = Log([Entry(0, 5), Entry(1, 6), Entry(2, 7)], end=now.end)
        index.begin_plan({"a": 1}, {"a": now})
        assert index.heads({"a": 1}) == {"a": Head(1, 6)}
        assert index.latest({"a": Extent(0, 9)}) == {"a": 7}

    def test_the_latest_time_is_asked_for_once_per_extent(self):
        index = TimeIndex(KafkaLike({"a": log(5, 9, 6)}))
        assert index.latest({"a": Extent(0, 3)}) == index.latest({"a": Extent(0, 3)}) == {"a": 9}
        assert index.lookups == 1
        assert index.latest({"a": Extent(0, 1)}) == {"a": 5}

    def test_the_latest_time_is_asked_for_again_after_records_were_deleted(self):
        # Otherwise a running planner would hold the others for a record that a restarted planner cannot see.
        logs = {"a": log(5, 9)}
        index = TimeIndex(KafkaLike(logs))
        assert index.latest({"a": Extent(0, 2)}) == {"a": 9}
        logs["a"].begin = 2
        assert index.latest({"a": Extent(2, 2)}) == {"a": None}

    def test_a_source_that_leaves_a_split_out_breaks_its_contract(self):
        class Forgetful(PeekOnly):
            def peek(self, _positions, _horizon):
                return {}

            def latest(self, _ends, _horizon):
                return {}

            def lookup(self, _event_time_ms, _splits):
                return {}

        index = TimeIndex(Forgetful({}))
        with pytest.raises(ContractError, match=r"peek\(\).*'a'"):
            index.heads({"a": 0})
        with pytest.raises(ContractError, match=r"lookup\(\).*'a'"):
            index.lookup(0, {"a": 0})


class Silent(PeekOnly):
    """Leaves the latest event times to peeks."""

    def latest(self, _ends, _horizon):
        return {}


@given(
    logs=st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, 60)), min_size=1),
    end=st.integers(0, 70),
    begin=st.integers(0, 20),
    reported=st.booleans(),
)
@example(logs={"a": {3, 4}}, end=9, begin=0, reported=False)
def test_the_last_record_before_an_end_is_found_by_peeks_whatever_holes_there_are(logs, end, begin, *, reported):
    source = Silent({s: Log([Entry(at, 1_000 + at) for at in sorted(log)], end=70) for s, log in logs.items()})
    index, extents = TimeIndex(source), dict.fromkeys(logs, Extent(begin, max(begin, end)))
    if reported:
        index.begin_plan(dict.fromkeys(logs, begin), dict.fromkeys(logs, Extent(begin, 70)))
    last = {split: max((at for at in log if begin <= at < end), default=None) for split, log in logs.items()}
    assert index.latest(extents) == {split: None if at is None else 1_000 + at for split, at in last.items()}


class TestCutter:
    def test_a_sample_tells_where_the_records_are(self):
        times = [*range(100), *[1000] * 800, *range(2000, 2100)]
        cuts, _ = cutter(KafkaLike({"a": log(*times), "b": log(*times), "tiny": log(0, 5)}))
        assert cuts.sample({}, cuts.candidates(2100), 0.5) == 1000


STEPS = st.lists(st.sampled_from([0, 0, 1, 1, 2, 30, 5000]), min_size=1, max_size=200)


def run(times, time_ms, known, *, exact=False):
    search = Bisection(Head(0, times[0]), len(times), time_ms, known, exact=exact)
    rounds = 0
    while (position := search.question()) is not None:
        assert 0 < position < len(times)
        search.answer(position, Head(position, times[position]))
        rounds += 1
    return search.result(), rounds


@settings(max_examples=800)
@given(STEPS, st.integers(1, 20_000), st.sets(st.integers(1, 199)))
def test_in_an_ordered_split_the_cut_is_at_the_time_and_a_rough_one_little_behind_it(steps, time_ms, peeks):
    times = [sum(steps[:i]) for i in range(len(steps))]
    if times[0] >= time_ms:
        return
    known = [(p, Head(p, times[p])) for p in peeks if p < len(times)]
    right = bisect_left(times, time_ms)
    cut, _ = run(times, time_ms, known, exact=True)
    assert cut == (right, times[right] if right < len(times) else None)
    (rough, _), _ = run(times, time_ms, known)
    assert right <= rough <= right + right // 16


@given(st.integers(2, 200), st.integers(1, 5_000), st.integers(1, 250), st.booleans())
def test_positions_that_are_far_apart_cost_few_peeks(records, width, time_ms, exact):
    search = Bisection(Head(0, 0), records * width, time_ms, exact=exact)
    peeks = 0
    while (position := search.question()) is not None:
        at = -(-position // width)
        search.answer(position, Head(at * width, at) if at < records else None)
        peeks += 1
    cut, _ = search.result()
    right = min(time_ms, records) * width
    assert cut <= (right if exact else right + right // 16)
    assert peeks <= 4 * (records * width).bit_length()


@settings(max_examples=800)
@given(st.lists(st.integers(0, 100), min_size=2, max_size=100), st.integers(1, 100))
def test_in_disorder_the_cut_is_not_past_a_record_that_was_seen_to_be_too_new(times, time_ms):
    times[0] = 0
    seen = []
    search = Bisection(Head(0, 0), len(times), time_ms, ())
    while (position := search.question()) is not None:
        seen.append((position, times[position]))
        search.answer(position, Head(position, times[position]))
    cut, _ = search.result()
    assert 0 < cut <= len(times)
    assert all(position >= cut for position, seen_ms in seen if seen_ms >= time_ms)


def test_what_was_seen_behind_a_record_that_is_too_new_does_not_count():
    search = Bisection(Head(0, 0), 10, 5, [(6, Head(6, 1)), (3, Head(3, 9))])
    while (position := search.question()) is not None:
        assert position < 3
        search.answer(position, Head(position, 0))
    assert search.result() == (3, 9)


def test_evenly_spread_times_take_a_handful_of_rounds():
    times = list(range(0, 10_000_000, 7))
    rounds = [run(times, time_ms, [], exact=True)[1] for time_ms in (70, 7_000, 700_000, 5_000_000, 9_999_000)]
    assert max(rounds) <= 14


def test_bursts_and_equal_times_take_no_more_than_halving():
    burst = [*range(0, 1000, 100), *[5000] * 500_000, *range(10_000, 500_000, 10), *[10**9] * 400_000]
    rounds = [run(burst, time_ms, [], exact=True)[1] for time_ms in (500, 5000, 5001, 250_000, 10**9)]
    assert max(rounds) <= 50


class Counting(PeekOnly):
    """Counts the positions that peeks look through."""

    looked_through = 0

    def peek(self, positions, horizon):
        heads = super().peek(positions, horizon)
        for split, head in heads.items():
            self.looked_through += (self.logs[split].end if head is None else head.position) - positions[split]
        return heads


@settings(max_examples=400)
@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_it_answers_as_looking_would_and_asks_for_no_position_twice(seen, data):
    records = [Head(position, 10 * position) for position, is_seen in enumerate(seen) if is_seen]
    known, end, begin = KnownHeads(), 0, 0
    looked = set()
    for _ in range(data.draw(st.integers(1, 25))):
        end = data.draw(st.integers(end, len(seen)))
        begin = data.draw(st.sampled_from([begin, begin, begin, data.draw(st.integers(begin, max(begin, end)))]))
        known.forget_before({"a": begin})
        position = data.draw(st.integers(begin, max(begin, end)))
        right = next((head for head in records if position <= head.position < end), None)
        head_or_position = known.find("a", position)
        if isinstance(head_or_position, Head):
            assert head_or_position == right or (right is None and head_or_position.position < len(seen))
            continue
        assert position <= head_or_position
        assert not any(position <= head.position < head_or_position for head in records)
        answer = next((head for head in records if head_or_position <= head.position < end), None)
        assert head_or_position not in looked, "a position without a record was looked at again"
        looked |= set(range(head_or_position, end if answer is None else answer.position))
        known.learn("a", head_or_position, answer, end)
        at = data.draw(st.integers(begin, max(begin, end)))
        first = known.first_without("a", at)
        assert first <= at
        assert not any(first <= head.position < at for head in records)


def test_a_stretch_without_a_record_is_looked_through_once_however_it_grows():
    entries = [Entry(0, 5), *[Entry(position, 9, seen=False) for position in range(1, 1000)], Entry(1000, 7)]
    source = Counting({"a": Log(entries)})
    index = TimeIndex(source)
    for end in (400, 401, 700, 1000):
        source.logs["a"].end = end
        index.begin_plan({"a": end // 2}, {"a": Extent(0, end)})
        assert index.heads({"a": end // 2}) == {"a": None}
    assert source.looked_through == 800  # from where it was first asked
    source.logs["a"].end = 1001
    index.begin_plan({"a": 1000}, {"a": Extent(0, 1001)})
    assert index.heads({"a": 1000}) == {"a": Head(1000, 7)}
    assert source.looked_through == 800


def test_the_latest_time_before_a_stretch_without_a_record_is_asked_for_once():
    entries = [Entry(0, 5), *[Entry(position, 9, seen=False) for position in range(1, 1000)]]
    source = Counting({"a": Log(entries)})
    index = TimeIndex(source)
    for end in (400, 700, 1000):
        source.logs["a"].end = end
        index.begin_plan({"a": 1}, {"a": Extent(0, end)})
        assert index.heads({"a": 1}) == {"a": None}
        assert index.latest({"a": Extent(0, end)}) == {"a": 5}
    assert index.lookups == 1


def test_another_index_is_told_of_long_stretches_that_reach_to_the_position():
    logs = {"a": Log([Entry(position, 9, seen=False) for position in range(1000)], end=1000)}
    first, second = TimeIndex(PeekOnly(logs)), TimeIndex(source := Counting(logs))
    first.begin_plan({"a": 10}, {"a": Extent(0, 1000)})
    first.heads({"a": 10})
    assert first.stretches_before({"a": 600}, least=591) == {}
    reported = first.stretches_before({"a": 600}, least=590)
    assert reported == {"a": 10}
    second.recall(reported, {"a": 600})
    second.begin_plan({"a": 600}, {"a": Extent(0, 1000)})
    assert second.heads({"a": 600}) == {"a": None}
    assert source.looked_through == 400
    assert second.stretches_before({"a": 1000}, least=1) == {"a": 10}


class Lying(KafkaLike):
    """Answers with ``lie(log, time_ms)`` instead of the first entry."""

    def __init__(self, lie):
        super().__init__({})
        self._lie = lie

    def __call__(self, logs):
        self.logs = logs
        return self

    def lookup(self, event_time_ms, splits):
        return {split: self._lie(self.logs[split], event_time_ms) for split in splits}


def none(_log, _time_ms):
    return None


def much_later(of_log, time_ms):
    later = [e for e in of_log.records(0, of_log.end) if e.time_ms >= time_ms + 200]
    return Head(later[0].position, later[0].time_ms) if later else None


def last_of_equal_times(of_log, time_ms):
    found = [e for e in of_log.records(0, of_log.end) if e.time_ms >= time_ms]
    same = [e for e in found if e.time_ms == found[0].time_ms]
    return Head(same[-1].position, same[-1].time_ms) if same else None


def too_early(of_log, time_ms):
    before = [e for e in of_log.records(0, of_log.end) if e.time_ms < time_ms]
    return Head(before[-1].position, before[-1].time_ms) if before else None


def of_another_time(of_log, time_ms):
    found = KafkaLike({"a": of_log}).lookup(time_ms, ["a"])["a"]
    return found and Head(found.position, found.event_time_ms + 1)


LIES = [none, much_later, last_of_equal_times, too_early, of_another_time]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("budget", [Budget(), Budget(rows=150)])
def test_a_slice_ends_at_the_bound_whatever_the_index_answers(lie, budget):
    times = sorted([*range(1000), *[500] * 9])
    limits = Limits(max_drift_ms=500, budget=budget)
    honest, lied_to = (
        World({"a": log(*times), "b": log(*range(0, 1000, 7))}, limits, source=source)
        for source in (KafkaLike, Lying(lie))
    )
    assert len(lied_to.plan().ranges) == 2
    honest.plan()
    if budget == Budget():
        assert lied_to.progress.positions == honest.progress.positions == {"a": 500, "b": 72}
    lied_to.drain()
    for planned in lied_to.plans:
        assert (
            planned.progress.bound_ms is None
            or planned.low_ms is None
            or (planned.progress.bound_ms <= planned.low_ms + 500)
        )
    assert lied_to.read("a") == times


def test_a_split_that_the_index_lied_about_is_counted_as_inexact_and_others_are_not():
    def lies_about_the_first(of_log, time_ms):
        return none(of_log, time_ms) if len(of_log.entries) == 1000 else last_of_equal_times(of_log, time_ms)

    world = World(
        {"a": log(*range(1000)), "b": log(*range(999))}, Limits(max_drift_ms=500), source=Lying(lies_about_the_first)
    )
    planned = world.plan()
    assert [planned.splits[s].exact for s in "ab"] == [False, True]
    assert world.progress.positions == {"a": 500, "b": 500}


def test_markers_and_holes_before_the_cut_make_no_doubt():
    entries = [Entry(at, at) for at in range(0, 1000, 90)]
    entries += [Entry(at + 1, at, seen=False) for at in range(0, 1000, 90)]
    world = World(
        {"a": Log(sorted(entries, key=lambda e: e.position), end=1100)}, Limits(max_drift_ms=500), source=KafkaLike
    )
    assert world.plan().splits["a"].exact
    assert world.read("a") == [*range(0, 500, 90)]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40).map(sorted),
    st.lists(st.integers(0, 60), min_size=1, max_size=40).map(sorted),
    st.sampled_from(LIES),
    st.integers(1, 30),
    st.sampled_from([None, 5]),
)
def test_ordered_splits_are_cut_as_by_an_honest_index(first, second, lie, drift_ms, rows):
    limits = Limits(max_drift_ms=drift_ms, budget=Budget(rows=rows))
    world = World({"a": log(*first), "b": log(*second)}, limits, source=Lying(lie))
    world.quiet = {"a", "b"}
    done = {"a": 0, "b": 0}
    while True:
        before = world.progress
        unread = [t for s, times in (("a", first), ("b", second)) for t in times[done[s] :]]
        if world.plan().progress is before:
            break
        new = {s: world.read(s)[done[s] :] for s in "ab"}
        done = {s: len(world.read(s)) for s in "ab"}
        assert all(t < min(unread) + drift_ms for of_split in new.values() for t in of_split)
    assert (world.read("a"), world.read("b")) == (first, second)
