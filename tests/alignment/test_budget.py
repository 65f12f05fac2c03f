from bisect import bisect_left

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.alignment.budget import greatest_within, share

PROFILE = settings(max_examples=500)


@PROFILE
@given(st.dictionaries(st.text(max_size=2), st.integers(0, 1000), min_size=1), st.integers(0, 3000))
def test_each_gets_one_where_there_are_enough_and_the_rest_in_proportion(backlog, rows):
    shares = share(backlog, rows)
    total = sum(backlog.values())
    assert sum(shares.values()) == min(rows, total)
    behind = sum(waiting > 0 for waiting in backlog.values())
    least = 1 if rows >= behind else 0
    for split, waiting in backlog.items():
        assert min(waiting, least) <= shares[split] <= waiting
        if rows < total and waiting:
            due = least + (waiting - least) * (rows - least * behind) / (total - least * behind)
            assert abs(shares[split] - due) < 1


TIMES = st.lists(st.integers(1, 10**6) | st.integers(500, 510), min_size=2, max_size=60).map(sorted)


@PROFILE
@given(TIMES, st.integers(1, 60), st.booleans())
def test_the_search_finds_a_time_that_fits_well_whenever_one_does(times, rows, sampled):
    asked = []

    def used(time_ms):
        asked.append(time_ms)
        return bisect_left(times, time_ms) / rows

    def sample(low, high, share):
        between = [t for t in times if low <= t < high]
        return between[int(len(between) * share)] if between else low

    high = times[-1] + 1
    used_at_high = used(high)
    if used_at_high <= 1:
        return
    greatest = greatest_within(used, times[0], high, used_at_high, sample if sampled else None)
    assert all(times[0] < t < high for t in asked[1:])
    if greatest is None:
        assert used(times[0] + 1) > 1, "the least time would have fitted"
        return
    assert used(greatest) <= 1
    steps = len(asked) - 2
    if steps < 10:
        assert used(greatest) >= 7 / 8 or used(greatest + 1) > 1, "there is more to be had"


def test_the_search_is_patient_only_for_ten_steps():
    asked = []

    def used(time_ms):
        asked.append(time_ms)
        return 0.5 if time_ms < 2**59 + 12345 else 1.5

    assert greatest_within(used, 0, 2**60, 1.5) is not None
    assert len(asked) == 10
