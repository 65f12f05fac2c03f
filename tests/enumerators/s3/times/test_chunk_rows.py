"""The times of a chunk, against an oracle that knows its rows."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.origin import ColumnTimes
from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.objects.values import ChunkSurvey, S3Object, TimeRange

HORIZON = 100
LARGEST_MS = (2**63 - 1) // 1000
times = st.none() | st.integers(-9, HORIZON + 9) | st.sampled_from([LARGEST_MS + 1, 2**63 - 1])


@given(
    st.lists(times, min_size=1, max_size=6),
    st.integers(0, HORIZON + 9),
    st.sampled_from(["fail", "record-timestamp", "ignore"]),
    st.sampled_from(["ignore", "hold", "fail"]),
)
@example([0, HORIZON + 1, LARGEST_MS + 1], 0, "record-timestamp", "fail")
@example([0, HORIZON + 1, LARGEST_MS + 1], HORIZON + 1, "ignore", "fail")
@example([HORIZON + 1, LARGEST_MS + 1], 0, "record-timestamp", "fail")
def test_a_chunk_counts_from_its_first_row_that_does_and_never_beyond_its_last(rows, modified_ms, bad, future):
    policy = EventTimePolicy(bad, future, max_future_skew_ms=HORIZON, earliest_ms=LEAST_MS)
    own = [time_ms for time_ms in rows if time_ms is not None]
    known = TimeRange(min(own), max(own)) if own else None
    survey = ChunkSurvey(0, 9, len(rows), known, rows.count(None))

    is_bad = [time_ms is None or time_ms > LARGEST_MS for time_ms in rows]
    if bad == "record-timestamp":
        rows = [modified_ms if without else time_ms for time_ms, without in zip(rows, is_bad, strict=True)]
    else:
        rows = [time_ms for time_ms, without in zip(rows, is_bad, strict=True) if not without]
    counted = rows if future == "hold" else [time_ms for time_ms in rows if time_ms <= HORIZON]
    is_refused = (bad == "fail" and any(is_bad)) or (future == "fail" and len(counted) < len(rows))

    # The rows between the least and the greatest time are unknown: a bad greatest time hides times in the future.
    stands_in_future = bad == "record-timestamp" and modified_ms > HORIZON
    hides_some = known is not None and known.max_ms > LARGEST_MS and bad != "fail" and not stands_in_future

    def chunk():
        return ObjectTimes(ColumnTimes("t"), policy=policy).chunk(
            S3Object("in/a", 9, "e", modified_ms), survey, now_ms=0
        )

    if is_refused and hides_some and min(own) <= HORIZON:
        assert chunk().min_ms == min(counted)
    elif is_refused:
        with pytest.raises(CorruptDataError, match="'in/a'"):
            chunk()
    elif not counted:
        assert chunk()[-2:] == (None, None)
    else:
        made = chunk()
        assert made.min_ms == min(counted)
        assert made.min_ms <= made.max_ms <= max(counted)
        if len(counted) == len(rows) and not (own and max(own) > LARGEST_MS):
            assert made.max_ms == max(counted)
