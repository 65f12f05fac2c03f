"""Watermarks that follow the time up to which a source is complete and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Logs, coordinator, read
from tidegate.alignment.budget import Budget
from tidegate.enumerators.contract import Completeness
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import ContractError


class MarkedLogs(Logs):
    """Logs whose test sets the time up to which they are complete."""

    until_ms = next_ms = None

    def completeness(self):
        return Completeness(self.until_ms, self.next_ms)


def planner(logs):
    return coordinator(logs, by_completeness=True, discovery_interval_s=0)


def test_without_anything_complete_there_is_no_watermark():
    run = planner(MarkedLogs(a=[10, 20]))
    end = run.latest_offset(INITIAL_OFFSET)
    assert "watermark" not in end
    assert run.source_progress()["completeness"] == {"until": None, "heldFrom": None}


def test_what_is_complete_and_read_is_the_watermark_also_past_the_last_row():
    logs = MarkedLogs(a=[10, 20])
    run = planner(logs)
    end = run.latest_offset(INITIAL_OFFSET)
    logs.until_ms, logs.next_ms = 99, 100
    assert run.latest_offset(end)["watermark"] == 99
    assert run.source_progress()["completeness"] == {"until": 99, "heldFrom": 100}


def test_a_split_that_comes_late_holds_until_its_rows_that_are_in_time_are_read():
    logs = MarkedLogs(a=[10, 20])
    logs.until_ms = 50
    run = planner(logs)
    end = run.latest_offset(INITIAL_OFFSET)
    logs.times["b"] = [5, 7, 60]
    logs.until_ms = 70
    watermarks = []
    for _ in range(3):
        end = run.latest_offset(end, Budget(rows=1))
        watermarks.append(end["watermark"])
    assert watermarks == [50, 50, 70]


def test_an_enumerator_has_to_know_what_is_complete():
    with pytest.raises(ContractError, match=r"has no completeness\(\)"):
        planner(Logs(a=[10])).latest_offset(INITIAL_OFFSET)


TIMES = st.lists(st.integers(0, 50), min_size=1, max_size=8).map(sorted)


@given(TIMES, TIMES, st.integers(1, 4), st.lists(st.integers(0, 60), max_size=6).map(sorted))
def test_the_watermark_passes_neither_unread_rows_nor_what_is_complete(a, b, rows, complete):
    logs, start, done = MarkedLogs(a=a, b=b), INITIAL_OFFSET, set()
    run = planner(logs)
    for until_ms in [*complete, *[60] * 20]:
        logs.until_ms = until_ms
        end = run.latest_offset(start, Budget(rows=rows))
        if end != start:
            done |= set(read(run, start, end))
        unread = [times[at] for s, times in logs.times.items() for at in range(len(times)) if (s, at) not in done]
        assert end["watermark"] <= until_ms
        assert all(at_ms > end["watermark"] for at_ms in unread)
        start = end
    assert start["watermark"] == 60
