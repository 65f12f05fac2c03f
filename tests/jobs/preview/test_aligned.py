"""The planner over previewed rows."""

from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.preview.test_spark import MINUTE_MS, demonstration, histories
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.jobs.preview.simulated import aligned_histories, outcome

HOUR_MS = 60 * MINUTE_MS


def test_an_aligned_back_fill_of_the_demonstration_loses_nothing_with_a_minute():
    splits = demonstration(330_000)
    found = outcome(splits, aligned_histories(splits, HOUR_MS, UNLIMITED), MINUTE_MS, 5 * MINUTE_MS)
    assert sum(found.rows) == 330_000
    assert 24 <= len(found.rows) <= 26
    assert sum(found.lost.values()) == 0
    assert found.least_delay_ms <= MINUTE_MS
    assert found.lead_ms <= HOUR_MS


def test_the_row_limit_makes_smaller_batches():
    splits = demonstration(33_000)
    found = outcome(splits, aligned_histories(splits, HOUR_MS, Budget(rows=500)), MINUTE_MS, 5 * MINUTE_MS)
    assert max(found.rows) <= 500
    assert (sum(found.rows), sum(found.lost.values())) == (33_000, 0)


@given(histories(least_ms=0), st.integers(1, 2_000), st.none() | st.integers(1, 30))
def test_every_row_is_read(splits, drift_ms, limit):
    found = outcome(splits, aligned_histories(splits, drift_ms, Budget(rows=limit)), MINUTE_MS, 5 * MINUTE_MS)
    assert sum(found.rows) == sum(history.end - history.start for history in splits.values())
