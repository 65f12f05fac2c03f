"""The event times that planning sees: by column, path and LastModified, under every policy."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.origin import LAST_MODIFIED, ColumnTimes
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.event_time.columns import EventTimeRange
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, TimeRange

NOW = 2_000_000_000_000
MODIFIED = 1_900_000_000_000
SKEW = 1_000
DAY = 86_400_000
FOUND = S3Object("in/a", 100, "e", MODIFIED)
DATED = PathTimes("dt={yyyy-MM-dd}")
BY_T = ColumnTimes("t")


def object_times(origin=LAST_MODIFIED, bad="fail", future="ignore", **settings):
    return ObjectTimes(origin, policy=EventTimePolicy(bad, future, SKEW, LEAST_MS), **settings)


def times(survey_times, without=0, obj=FOUND, rows=7, **settings):
    """Return the times of a chunk with this survey."""
    made = object_times(**settings)
    chunk = made.chunk(obj, ChunkSurvey(10, 20, rows, survey_times and TimeRange(*survey_times), without), NOW)
    assert chunk == Chunk(*obj, 10, 20, rows, chunk.min_ms, chunk.max_ms)
    return chunk.min_ms, chunk.max_ms


@pytest.mark.parametrize(
    ("found_times", "without", "settings", "sentence"),
    [
        (
            (5, 9),
            1,
            {"origin": BY_T},
            "a row of the object 'in/a' has no usable event time in the column 't': it is missing",
        ),
        (None, 7, {"origin": BY_T}, "it is missing or unparsable; set badEventTime to record-timestamp or ignore"),
        (None, 0, {"origin": BY_T}, "in the column 't': it is missing"),
        (None, 7, {"origin": BY_T, "unit": "s"}, "in the column 't', where eventTimeUnit is s: it is missing"),
        ((5, 9), 0, {"origin": DATED}, "the object 'in/a' has no usable event time in its path: it is missing"),
    ],
)
def test_rows_without_a_time_end_the_query_when_bad_event_times_fail(found_times, without, settings, sentence):
    with pytest.raises(CorruptDataError, match=sentence):
        times(found_times, without, **settings)


@pytest.mark.parametrize("bad", ["fail", "ignore", "record-timestamp"])
@pytest.mark.parametrize("rows", [0, 2], ids=["no row begins", "all are malformed"])
def test_a_chunk_without_a_row_that_could_have_a_time_lacks_none(bad, rows):
    chunk = object_times(BY_T, bad=bad).chunk(FOUND, ChunkSurvey(0, 9, rows, None, malformed_rows=rows), NOW)
    assert (chunk.min_ms, chunk.max_ms) == (None, None)


def test_times_in_the_future_are_held_by_the_planner_left_out_or_an_error():
    ahead = NOW + SKEW + 1
    assert times((ahead, ahead + 5), origin=BY_T, future="hold") == (ahead, ahead + 5)
    assert times((ahead, ahead + 5), origin=BY_T, future="ignore") == (None, None)
    assert times((5, ahead), origin=BY_T, future="ignore") == (5, 5)
    for found_times in ((ahead, ahead + 5), (5, ahead)):
        with pytest.raises(
            CorruptDataError, match=r"a row of the object 'in/a' has an event time of 20000000010.* maxFutureSkew"
        ):
            times(found_times, origin=BY_T, future="fail")


@pytest.mark.parametrize(
    ("survey_times", "begin", "end", "planned"),
    [
        ((5, 9), 5, 10, (5, 9)),
        ((5, 9), 7, None, (7, 9)),
        ((5, 9), None, 7, (5, 6)),
        ((5, 9), 9, 9, None),
        ((5, 9), 10, None, None),
        ((5, 9), None, 5, None),
        (None, 0, None, None),
        # The wanted part may be in the past while the rest of a chunk is in the future.
        ((5, NOW + 2 * SKEW), 6, 8, (6, 7)),
        ((5, NOW + 2 * SKEW), 6, None, (6, 6)),
    ],
)
def test_a_chunk_counts_by_its_times_that_are_wanted_and_without_any_it_is_left_out(survey_times, begin, end, planned):
    made = object_times(BY_T, bad="ignore", wanted=EventTimeRange(begin, end))
    chunk = made.chunk(FOUND, ChunkSurvey(0, 9, 7, survey_times and TimeRange(*survey_times)), NOW)
    assert (chunk and (chunk.min_ms, chunk.max_ms)) == planned


@pytest.mark.parametrize("bad", ["fail", "ignore", "record-timestamp"])
@pytest.mark.parametrize(
    ("survey_times", "begin", "end", "planned"),
    [
        ((5, 5), 7, None, (5, 5)),  # as if rows between the ends were later
        ((5, 9), None, 3, (2, 2)),
        ((5, 9), 7, None, (7, 9)),
        ((5, NOW + 2 * SKEW), 6, 8, (6, 7)),
    ],
)
def test_a_chunk_with_rows_that_nobody_has_looked_at_is_never_left_out(bad, survey_times, begin, end, planned):
    made = object_times(BY_T, bad=bad, wanted=EventTimeRange(begin, end))
    chunk = made.chunk(FOUND, ChunkSurvey(0, 9, 7, TimeRange(*survey_times), exact=False), NOW)
    assert (chunk.min_ms, chunk.max_ms) == planned


def test_a_chunk_is_not_left_out_either_where_no_row_that_was_looked_at_has_a_time():
    made = object_times(BY_T, bad="ignore", wanted=EventTimeRange(0, 5))
    chunk = made.chunk(FOUND, ChunkSurvey(0, 9, 7, None, 2, exact=False), NOW)
    assert (chunk.min_ms, chunk.max_ms) == (None, None)


def test_what_a_path_or_last_modified_says_is_known_of_all_rows():
    survey = ChunkSurvey(0, 9, 7, TimeRange(5, 9), exact=False)
    later = EventTimeRange(NOW, None)
    day = S3Object("in/dt=1970-01-02/a", 100, "e", MODIFIED)
    assert ObjectTimes(wanted=later).chunk(FOUND, survey, NOW) is None
    assert ObjectTimes(DATED, wanted=later).chunk(day, survey, NOW) is None


def named(value):
    return S3Object(f"Day=x/in/Day={value}/a", 100, "e", MODIFIED)


def by_folder(kind="string", unit=None, **settings):
    """Return the times of objects whose column is named by the folders of some keys."""
    columns = pa.schema([pa.field("day", kind)])
    return object_times(ColumnTimes("day"), unit=unit, columns=columns, prefix="Day=x/in/", **settings)


@pytest.mark.parametrize(
    ("value", "kind", "unit", "time"),
    [
        ("1970-01-02", pa.date32(), None, DAY),
        ("1970-01-02", pa.string(), None, DAY),
        ("1970-01-02 01%3A00%3A00", pa.timestamp("us", "UTC"), "iso8601", DAY + 3_600_000),
        ("86400", pa.int32(), "s", DAY),
        ("86400", pa.string(), "s", DAY),
    ],
)
def test_a_folder_that_names_the_column_gives_the_time_of_all_rows(value, kind, unit, time):
    made = by_folder(kind, unit)
    assert made.column_in(named(value)) is None
    survey = ChunkSurvey(0, 9, 7, TimeRange(7, 9), 3)
    chunk = made.chunk(named(value), survey, NOW)
    assert (chunk.min_ms, chunk.max_ms) == (time, time)
    later = by_folder(kind, unit, wanted=EventTimeRange(time + 1, None))
    assert later.chunk(named(value), survey, NOW) is None


def test_where_no_folder_names_the_column_it_is_one_of_the_data():
    made, obj = by_folder(), S3Object("Day=x/in/a", 100, "e", MODIFIED)
    assert made.column_in(obj) == "day"
    chunk = made.chunk(obj, ChunkSurvey(0, 9, 7, TimeRange(7, 9)), NOW)
    assert (chunk.min_ms, chunk.max_ms) == (7, 9)


@pytest.mark.parametrize("value", ["soon", "__HIVE_DEFAULT_PARTITION__"])
def test_a_folder_whose_value_is_no_time_is_what_an_error_tells_of(value):
    survey = ChunkSurvey(0, 9, 7, None)
    with pytest.raises(
        CorruptDataError, match=rf"'.*Day={value}/a' has no usable event time in its path: it is missing "
    ):
        by_folder().chunk(named(value), survey, NOW)
    chunk = by_folder(bad="record-timestamp").chunk(named(value), survey, NOW)
    assert (chunk.min_ms, chunk.max_ms) == (MODIFIED, MODIFIED)
    assert by_folder(bad="ignore", wanted=EventTimeRange(5, None)).chunk(named(value), survey, NOW) is None


def test_a_folder_whose_value_is_none_of_the_type_of_the_column_ends_the_query():
    with pytest.raises(CorruptDataError, match=r"'Day=x/in/Day=soon/a': its path has no DATE in 'day'$"):
        by_folder(pa.date32(), bad="ignore").chunk(named("soon"), ChunkSurvey(0, 9, 7, None), NOW)


def test_a_folder_whose_type_holds_no_times_is_told():
    with pytest.raises(OptionError, match=r"the column 'day' of type INT needs s, ms, us or ns$"):
        by_folder(pa.int32()).chunk(named("5"), ChunkSurvey(0, 9, 7, None), NOW)


HORIZON = 100
LARGEST_MS = (2**63 - 1) // 1000
row_times = st.none() | st.integers(-9, HORIZON + 9) | st.sampled_from([LARGEST_MS + 1, 2**63 - 1])


@given(
    st.lists(row_times, min_size=1, max_size=6),
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
