"""What lookups tell of a log, against all its records."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.splits import Head
from tidegate.jobs.preview.topics import Curve

BEGIN = 7


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=60), st.booleans())
def test_each_gap_holds_only_rows_that_are_older_than_it_says(times, ordered):
    times = sorted(times) if ordered else times
    curve, looks = Curve(BEGIN, BEGIN + len(times), times[0], max(times)), 0
    while (time_ms := curve.question) is not None:
        first = next((place for place, at_ms in enumerate(times) if at_ms >= time_ms), None)
        curve.learn(None if first is None else Head(BEGIN + first, times[first]))
        looks += 1
    assert looks <= 200
    assert [gap.start for gap in curve.gaps[1:]] == [gap.end for gap in curve.gaps[:-1]]
    assert (curve.gaps[0].start, curve.gaps[-1].end) == (BEGIN, BEGIN + len(times))
    for gap in curve.gaps:
        rows = times[gap.start - BEGIN : gap.end - BEGIN]
        assert rows[0] == gap.start_ms
        assert max(rows) < gap.before_ms
        assert gap.is_unsure or gap.rows < 2


def test_a_marker_after_all_records_makes_the_index_blind():
    curve = Curve(0, 1_000, 5, 900_000)
    curve.learn(Head(40, 10**12))
    assert [gap.is_unsure for gap in curve.gaps] == [True]
    assert curve.question is None
