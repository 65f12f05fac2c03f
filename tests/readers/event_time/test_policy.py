"""The decision about bad and future event times, compared with an oracle that judges row by row."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.alignment.splits import NEVER_MS, Horizon
from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.policy import LEAST_MS, NO_TIME, BadEventTime, EventTimePolicy
from tidegate.readers.event_time.units import LARGEST_MS

NOW_MS = 1_700_000_000_000
SKEW_MS = 1_000
HORIZON = Horizon(NOW_MS + SKEW_MS + 1)
EDGES = [0, NOW_MS, NOW_MS + SKEW_MS, LARGEST_MS, -LARGEST_MS]

times = st.none() | st.sampled_from([edge + off for edge in EDGES for off in (-1, 0, 1)] + [LEAST_MS, 2**63 - 1])
stand_ins = st.none() | st.sampled_from([-1, 0, NOW_MS + SKEW_MS, NOW_MS + SKEW_MS + 1, LARGEST_MS + 1])
rows = st.lists(st.tuples(times, stand_ins), max_size=6)
ending = st.builds(
    EventTimePolicy,
    st.sampled_from(["fail", "record-timestamp", "ignore"]),
    st.sampled_from(["ignore", "hold", "fail"]),
    st.just(SKEW_MS),
    st.sampled_from([0, LEAST_MS]),
)
policies = ending | ending.filter(lambda policy: policy.future != "fail").map(partial(replace, sets_aside=True))


class Row(NamedTuple):
    """The oracle's decision about a row: a time or None, the fault, and whether the query ends."""

    time_ms: int | None
    fault: str | None = None
    is_refused: bool = False


def oracle(policy: EventTimePolicy, own_ms: int | None, stand_in_ms: int | None) -> Row:
    """Decide about a row as docs/reference/options-kafka.md describes the options."""

    def is_bad(time_ms: int | None) -> bool:
        return time_ms is None or (policy.earliest_ms == 0 and time_ms < 0) or time_ms * 1000 >= 2**63

    fault = "bad" if is_bad(own_ms) else None
    time_ms = own_ms
    if fault is not None:
        if policy.bad == "ignore":
            return Row(None, fault)
        if policy.bad == "fail" or is_bad(stand_in_ms):
            return Row(None, fault, is_refused=True)
        time_ms = stand_in_ms
    if time_ms is not None and time_ms - NOW_MS > SKEW_MS and policy.future != "hold":
        return Row(None, fault or "future", is_refused=policy.future == "fail")
    return Row(time_ms, fault)


def array(times_or_none: list[int | None]) -> Any:
    return np.array([NO_TIME if time_ms is None else time_ms for time_ms in times_or_none], np.int64)


@given(policies, rows, st.booleans())
@example(
    policy=EventTimePolicy("record-timestamp", "ignore", SKEW_MS),
    given_rows=[(None, NOW_MS + SKEW_MS + 1)],
    stands_in=True,
)
@example(
    policy=EventTimePolicy("fail", "fail", SKEW_MS), given_rows=[(NOW_MS + SKEW_MS + 1, 0), (None, 0)], stands_in=True
)
def test_rows_count_as_the_options_say(policy, given_rows, stands_in):
    if not stands_in:
        given_rows = [(own_ms, None) for own_ms, _ in given_rows]
    own, others = (array([row[column] for row in given_rows]) for column in (0, 1))
    before = own.copy()
    judged = policy.judge(own, others if stands_in else None, HORIZON)
    expected = [oracle(policy, *row) for row in given_rows]
    assert [None if time_ms == NO_TIME else time_ms for time_ms in judged.times.tolist()] == [
        row.time_ms for row in expected
    ]
    assert judged.bad.tolist() == [row.fault == "bad" for row in expected]
    assert judged.future.tolist() == [row.fault == "future" for row in expected]
    refused = [row for row, said in enumerate(expected) if said.is_refused]
    ends = bool(refused) and not policy.sets_aside
    assert (judged.refused and judged.refused.row) == (refused[0] if ends else None)
    assert np.flatnonzero(judged.set_aside).tolist() == (refused if policy.sets_aside else [])
    ending = replace(policy, sets_aside=False)
    for row in np.flatnonzero(judged.set_aside).tolist():
        alone, other = (column[row : row + 1] for column in (own, others))
        refusal = policy.refusal(row, own, others if stands_in else None)
        assert refusal._replace(row=0) == ending.judge(alone, other if stands_in else None, HORIZON).refused
    assert (own == before).all()


@given(policies, times, stand_ins)
@example(EventTimePolicy("record-timestamp", "fail", SKEW_MS), None, NOW_MS + SKEW_MS + 1)
@example(EventTimePolicy("record-timestamp", "ignore", SKEW_MS), None, NOW_MS + SKEW_MS + 1)
def test_one_row_counts_as_it_does_among_others(policy, own_ms, stand_in_ms):
    expected = oracle(policy, own_ms, stand_in_ms)
    if expected.is_refused and not policy.sets_aside:
        with pytest.raises(CorruptDataError, match=r"^orders: the row at 17 has .* from a column"):
            policy.time_of_row(own_ms, stand_in_ms, HORIZON, "orders: the row at 17", " from a column")
    else:
        assert policy.time_of_row(own_ms, stand_in_ms, HORIZON, "orders: the row at 17") == expected.time_ms


@given(policies, st.lists(times.filter(lambda time_ms: time_ms is not None and time_ms <= LARGEST_MS), max_size=6))
def test_a_search_within_the_limits_finds_the_first_record_that_counts_or_is_refused(policy, timestamps_ms):
    lowest_ms, horizon = policy.searched(HORIZON)
    first = next((row for row, time_ms in enumerate(timestamps_ms) if lowest_ms <= time_ms < horizon.at_ms), None)
    said = [oracle(policy, time_ms, time_ms) for time_ms in timestamps_ms]
    assert first == next(
        (
            row
            for row, outcome in enumerate(said)
            if (outcome.is_refused and not policy.sets_aside) or outcome.time_ms is not None
        ),
        None,
    )
    assert [policy.accepts(time_ms, HORIZON) for time_ms in timestamps_ms] == [
        outcome.fault is None for outcome in said
    ]


@pytest.mark.parametrize(
    ("bad", "own_ms", "stand_in_ms", "sentence"),
    [
        ("fail", None, 5, "has no usable event time: it is missing or unparsable; set badEventTime to record-timest"),
        ("fail", -1, -1, "has no usable event time: it is negative; set badEventTime to ignore"),
        ("record-timestamp", 10**30, None, "it is too large, and its own timestamp is missing or unparsable; set"),
        ("record-timestamp", -(10**30), -1, "it is negative, and its own timestamp is negative; set badEventTime to i"),
        ("fail", NOW_MS * 2, None, f"has an event time of {NOW_MS * 2} ms, further ahead of the clock than maxFutureS"),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_set(
    bad: BadEventTime, own_ms: int | None, stand_in_ms: int | None, sentence: str
) -> None:
    policy = EventTimePolicy(bad, "fail")
    with pytest.raises(CorruptDataError) as error:
        policy.time_of_row(own_ms, stand_in_ms, HORIZON, "orders: the row at 17")
    assert str(error.value).startswith("orders: the row at 17 has ")
    assert sentence in str(error.value)


@given(rows)
def test_the_horizon_notes_when_the_first_row_that_is_left_out_will_count(given_rows) -> None:
    own, others = (array([row[column] for row in given_rows]) for column in (0, 1))
    policy, horizon = EventTimePolicy("record-timestamp", max_future_skew_ms=SKEW_MS), Horizon(HORIZON.at_ms)
    policy.judge(own, others, horizon)
    held = replace(policy, future="hold").judge(own, others, horizon).times
    assert horizon.next_ms == min(held[held >= HORIZON.at_ms].tolist(), default=NEVER_MS)
