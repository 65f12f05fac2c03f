"""TIME: any number of rows that are not aligned by."""

from __future__ import annotations

from tidegate.conformance.checks.time.bad import IN_THE_YEAR_2200_MS
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.lab import Lab, after, said

__all__ = ["check_any_number_of_rows_that_do_not_count_is_stepped_over"]

_MANY = 1_200


@rule(
    "TIME-26",
    "any number of rows that do not count is skipped",
    purpose="Rows that are left out may fill a page, or have the greatest time. A split that seems to end there lets "
    "the others run ahead of its next rows.",
    tested=f"With futureEventTime=ignore, {_MANY:,} rows of the year 2200 stand between two others, and behind them.",
    passes="peek() finds the two others one after the other, and then nothing; latest() says one of their times.",
    look_at=(
        "a limit of the rows that peek() or latest() looks at",
        "a maximum that is taken before rows are left out",
    ),
    witness=("rows that are left out",),
    source="SupportsPeek.peek and latest",
)
def check_any_number_of_rows_that_do_not_count_is_stepped_over(lab: Lab) -> None:
    """Hide rows among many that do not count."""
    counted = after(0, 10)
    split = lab.split()
    for time_ms in counted:
        split.append_each(time_ms)
        split.append(*[IN_THE_YEAR_2200_MS] * _MANY)
    lab.saw("rows that are left out")
    enumerator = lab.enumerator(lab.source(futureEventTime="ignore"))
    ranges = lab.everything(enumerator)
    peeking, left = lab.peeking(enumerator), {part.split_id: part.start for part in ranges}
    times_ms: list[int] = []
    while left:
        heads = peeking.peek(left)
        left = {name: head.position + 1 for name in left if (head := heads[name]) is not None}
        times_ms += [head.event_time_ms for head in heads.values() if head is not None]
        lab.expect(len(times_ms) <= len(counted), f"peek() finds {said(times_ms[-1])}, which is not to be aligned by")
    lab.expect(
        sorted(times_ms) == counted, f"peek() finds {_listed(times_ms)}, but there are rows of {_listed(counted)}"
    )
    answers = lab.latest(peeking, {part.split_id: part.end for part in ranges}).values()
    latest = [time_ms for time_ms in answers if time_ms is not None]
    lab.expect(latest, "latest() says none, but there are rows to align by before the end")
    lab.expect(max(latest) <= max(counted), f"latest() says {said(max(latest))}, which is not to be aligned by")


def _listed(times_ms: list[int]) -> str:
    return " and ".join(map(said, times_ms)) or "nothing"
