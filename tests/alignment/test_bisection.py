from bisect import bisect_left

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.alignment.bisection import Bisection
from tidegate.alignment.splits import Head

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
def test_in_an_ordered_split_the_cut_is_at_the_time_and_a_rough_one_little_behind_it(steps, time_ms, peeked):
    times = [sum(steps[:i]) for i in range(len(steps))]
    if times[0] >= time_ms:
        return
    known = [(p, Head(p, times[p])) for p in peeked if p < len(times)]
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
