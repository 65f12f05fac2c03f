"""TIME: rows that planning leaves out, or that end the query."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.errors import TidegateError

_MANY = 1_200


@rule("TIME-18", witness=("a refusal",))
def a_row_without_a_usable_time_ends_the_query_under_fail(lab: Lab) -> None:
    if lab.can(Ability.MISSING_TIMES):
        _expect_refusal(lab, None, badEventTime="fail")
    if lab.can(Ability.MANY_SPLITS) or not lab.splits:
        _expect_refusal(lab, IN_THE_YEAR_2200_MS, badEventTime="ignore", futureEventTime="fail")


def _expect_refusal(lab: Lab, bad_ms: int | None, **options: str) -> None:
    split = lab.split(*after(0, 1), bad_ms, *after(2))
    bad = split.keys[2]
    try:
        query = Query(lab, lab.source(**options))
        query.run_until(
            lambda: bad in query.delivered, f"the row {bad} is not delivered, but the query does not end either"
        )
    except TidegateError as refusal:
        lab.tell(f"the query ends: {type(refusal).__name__}")
        lab.saw("a refusal")
        return
    written = ", ".join(f"{name}={value}" for name, value in options.items())
    raise lab.fail(f"the row {bad} is delivered with {written}, and the query goes on")


@rule("TIME-26", witness=("rows that are left out",))
def any_number_of_rows_that_do_not_count_is_stepped_over(lab: Lab) -> None:
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
        heads = peeking.peek(left, lab.horizon)
        left = {name: head.position + 1 for name in left if (head := heads[name]) is not None}
        times_ms += [head.event_time_ms for head in heads.values() if head is not None]
        lab.expect(
            len(times_ms) <= len(counted), f"peek() finds {said(times_ms[-1])}, the time of a row that does not count"
        )
    lab.expect(
        sorted(times_ms) == counted, f"peek() finds {_listed(times_ms)}, but there are rows of {_listed(counted)}"
    )
    answers = lab.latest(peeking, {part.split_id: part.end for part in ranges}).values()
    latest = [time_ms for time_ms in answers if time_ms is not None]
    lab.expect(latest, "latest() says none, but there are rows to align by before the end")
    lab.expect(max(latest) <= max(counted), f"latest() says {said(max(latest))}, the time of a row that does not count")


def _listed(times_ms: list[int]) -> str:
    return " and ".join(map(said, times_ms)) or "nothing"
