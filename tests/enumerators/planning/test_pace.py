"""The size of batches: budgets, and batches that size themselves."""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import mean, pstdev

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.alignment.budget import greatest_within, share
from tidegate.enumerators.planning.pace import BatchSizer
from tidegate.errors import OptionError
from tidegate.sources.options import parse_duration

PROFILE = settings(max_examples=200)

EVER_MORE = 10**12
SEEDS = st.integers(0, 2**32)


@dataclass(frozen=True)
class Batch:
    budget: int
    seconds: float  # without noise


@dataclass
class Sink:
    """A sink that the sizer does not know: ``fixed`` seconds per batch, and rows at a speed of about ``speed``."""

    fixed: float = 0.2
    speed: float = 50_000.0
    noise: Callable[[], float] = lambda: 1.0

    def take(self, sizer, backlog=EVER_MORE, factor=1.0):
        rows = min(sizer.rows, backlog)
        batch = Batch(sizer.rows, self.fixed + rows / self.speed)
        return batch, rows, factor * (self.fixed + rows / (self.speed * self.noise()))

    def run(self, sizer, batches, backlog=lambda: EVER_MORE):
        taken = []
        for _ in range(batches):
            batch, *measured = self.take(sizer, backlog())
            sizer.observe(*measured)
            taken.append(batch)
        return taken


def noise(seed):
    random = Random(seed)
    return lambda: random.uniform(0.7, 1.3)


def variation(batches):
    budgets = [batch.budget for batch in batches]
    return pstdev(budgets) / mean(budgets)


def until_back(batches, target):
    """Return the number of batches before the first from which on all are within 30 % of the target."""
    off = [i for i, batch in enumerate(batches) if abs(batch.seconds / target - 1) > 0.3]
    return off[-1] + 1 if off else 0


@pytest.mark.parametrize("fixed", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("target", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("speed", [20.0, 50_000.0, 10_000_000.0])
def test_batches_settle_at_the_target_whatever_the_speed(target, fixed, speed):
    batches = Sink(fixed, speed).run(BatchSizer(target), 60)
    assert batches[-1].seconds == pytest.approx(target, rel=0.1)


@PROFILE
@given(SEEDS, st.sampled_from([1.0, 10.0]), st.floats(0, 0.3))
def test_noise_does_not_make_the_budget_oscillate(seed, target, fixed):
    batches = Sink(fixed, noise=noise(seed)).run(BatchSizer(target), 140)[40:]
    assert variation(batches) < 0.15
    assert mean([batch.seconds for batch in batches]) == pytest.approx(target, rel=0.1)


@PROFILE
@given(SEEDS, st.sampled_from([2.0, 10.0]), st.floats(0, 0.3))
def test_a_sink_that_slows_down_five_times_is_met_after_at_most_three_batches(seed, target, fixed):
    sizer, sink = BatchSizer(target), Sink(fixed, noise=noise(seed))
    sink.run(sizer, 40)
    sink.speed /= 5
    overshoot, *after = sink.run(sizer, 4)
    assert overshoot.seconds > 3 * target
    assert after[-1].seconds == pytest.approx(target, rel=0.3)


def test_a_sink_that_speeds_up_again_is_followed_by_doubling():
    sizer, sink = BatchSizer(10.0), Sink(speed=10_000.0)
    sink.run(sizer, 40)
    sink.speed *= 5
    batches = sink.run(sizer, 30)
    assert [after.budget // before.budget for before, after in pairwise(batches[:3])] == [2, 2]
    assert until_back(batches, 10.0) == 2
    assert max(batch.seconds for batch in batches) < 1.1 * 10


@PROFILE
@given(SEEDS)
def test_a_pause_costs_two_batches(seed):
    sizer, sink = BatchSizer(10.0), Sink(noise=noise(seed))
    settled = mean([batch.budget for batch in sink.run(sizer, 60)[40:]])
    before = sizer.rows
    _, *pause = sink.take(sizer, factor=10.0)
    sizer.observe(*pause)
    first, second, *others = [batch.budget for batch in sink.run(sizer, 5)]
    assert first == before // 3
    assert first < second < 0.9 * settled
    assert min(others) > 0.6 * settled  # in 20,000 runs, noise alone took one to 0.67


@PROFILE
@given(SEEDS, st.integers(0, 5_000))
def test_small_batches_leave_the_budget_where_it_was(seed, most):
    random = Random(seed)
    sizer, sink = BatchSizer(10.0), Sink(noise=noise(seed))
    sink.run(sizer, 40)
    sink.run(sizer, 300, lambda: random.randint(0, most))
    # The budget before the small batches is no measure: it is also one of many that the noise makes.
    assert sizer.rows == pytest.approx((10.0 - sink.fixed) * sink.speed, rel=0.4)


def test_small_batches_teach_the_fixed_time():
    sizer, sink = BatchSizer(2.0), Sink(fixed=0.8)
    sink.run(sizer, 30, lambda: 10)
    batches = sink.run(sizer, 20)
    assert max(batch.seconds for batch in batches) < 1.1 * 2
    assert batches[-1].seconds == pytest.approx(2, rel=0.1)


def test_batches_that_leave_their_budget_unused_do_not_let_it_grow():
    sizer = BatchSizer(10.0)
    Sink().run(sizer, 100, lambda: 400)
    assert sizer.rows == 1_000
    Sink().run(sizer, 100, lambda: 900)
    assert sizer.rows == 1_800


def test_a_target_below_the_fixed_time_does_not_end_in_batches_of_one_row():
    batches = Sink(fixed=0.5).run(BatchSizer(0.4), 100)
    assert 100 < batches[-1].budget < 0.4 / 3 * 50_000


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_time_that_no_batch_takes_teaches_nothing(seconds):
    sizer, twin = BatchSizer(10.0), BatchSizer(10.0)
    sizer.observe(10**6, seconds)
    assert Sink().run(sizer, 20) == Sink().run(twin, 20)


ROWS = st.integers(-1, 10**30) | st.integers(0, 10)
SECONDS = st.floats() | st.sampled_from([0.001, 0.2, 1e9])


@PROFILE
@given(
    st.floats(1e-3, 1e9),
    st.lists(st.tuples(ROWS, SECONDS), min_size=1, max_size=20),
)
@example(10.0, [(10**400, 1.0)])
@example(10.0, [(-(10**9), 1.0)])
@example(10.0, [(1, 1e308), (2**63 - 1, 1.0)])
@example(10.0, [(2**63 - 1, 5e-324)])
def test_no_measures_whatever_break_the_sizer(target, measures):
    sizer = BatchSizer(target)
    for rows, seconds in measures * 20:
        sizer.observe(rows, seconds)
        assert 1 <= sizer.rows <= 2**63 - 1


@pytest.mark.parametrize("target", [0.0, -1.0, 1e-4, math.nan, math.inf])
def test_a_target_that_no_batch_can_take_is_refused(target):
    with pytest.raises(OptionError, match="target batch duration"):
        BatchSizer(target)


def test_the_longest_duration_of_an_option_is_a_target():
    assert BatchSizer(parse_duration("106751 days").total_seconds()).rows == 1_000


@settings(max_examples=500)
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


@settings(max_examples=500)
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
