"""TIME: an enumerator knows the event times of the rows that a reader gives, and of no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.base import SkippedError
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, IN_THE_YEAR_2200_MS, SECOND_MS, Lab, after, time_text
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.connector import (
    Head,
    Source,
    SplitEnumerator,
    SplitId,
    SplitRange,
    SupportsEventTimes,
    SupportsTimeIndex,
    TimedBatch,
)
from tidegate.errors import TidegateError

_HOUR_MS = 3_600 * SECOND_MS
_MANY = 1_200


@rule("TIME-1", witness=("a row", "an end", "a row to leave out"))
def peek_finds_the_first_usable_row_at_or_after_a_position(lab: Lab) -> None:
    """peek() finds the first usable row at or after a position.

    The planner cuts batches by peeks: a row that peek() misses is read too early, or never, and a row without a usable
    time must not stop its split. Each answer is the first usable row by position, with its event time; at the end it is
    None.

    Look at: the row at the position itself; the first row by position, not by time; an answer for every split in the
    question; a placeholder for a missing time, such as 0; a peek() that looks at one row only; the unit, which is ms
    since 1970.
    """
    bad: list[int | None] = [IN_THE_YEAR_2200_MS, *([None] if lab.can(Ability.MISSING_TIMES) else [])]
    written = lab.split(*bad, *_at(0, 1, 2_500), *bad, *bad, *_at(2_500, 60_000), *bad)
    if lab.can(Ability.HOLES):
        written.leave_hole()
        written.leave_hole()
        written.append_each(*_at(61_000))
        written.leave_hole()
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*_at(7, 8_999))
    if lab.can(Ability.MANY_SPLITS) and lab.can(Ability.DISORDER):
        lab.split(*_at(5_000, 30_000, 1_000))
    enumerator, placed = _placed(lab, badEventTime="ignore", futureEventTime="ignore")
    heads = _heads(lab, placed)
    begins = {split: min(positions) for split, positions in placed.items() if positions}
    ends = {split: max(positions) + 1 for split, positions in placed.items() if positions}
    for step in range(1 + max(ends[split] - begins[split] for split in begins)):
        asked = {split: min(begin + step, ends[split]) for split, begin in begins.items()}
        answers = enumerator.peek(asked, lab.horizon)
        for split, position in asked.items():
            first = next((head for head in heads[split] if head.position >= position), None)
            lab.expect(split in answers, f"peek() was asked for split {split!r} and answered only for others")
            lab.expect(
                answers[split] == first,
                f"peek() of {split!r} at {position} says {_head(answers[split])}, but the first row to align by that a "
                f"reader yields from there is {_head(first)}",
            )
            _witness(lab, placed[split], position, first)


@rule("TIME-4", witness=("a time", "no row"))
def latest_is_never_too_great(lab: Lab) -> None:
    """latest() is never too great.

    The watermark of a split at its end follows from it. It is at most the greatest event time before the end, and None
    only where no row comes before.

    Look at: the row at the end, which does not count; figures of the whole split, where the question is about a part.
    """
    written = lab.split(*_at(0, 9_000, 3_000, 20_000, 5_000) if lab.can(Ability.DISORDER) else _at(0, 3_000, 9_000))
    if lab.can(Ability.HOLES):
        written.leave_hole()
    enumerator, placed = _placed(lab)
    for split, heads in _heads(lab, placed).items():
        for end in [*sorted(placed[split]), max(placed[split], default=-1) + 1]:
            before = [head.event_time_ms for head in heads if head.position < end]
            latest_ms = lab.latest(enumerator, {split: end})[split]
            lab.saw("a time" if before else "no row")
            claim = f"latest() of {split!r} before {end} says {latest_ms}, "
            lab.expect(before or latest_ms is None, f"{claim}but there is no row before it")
            lab.expect(not before or latest_ms is not None, f"{claim}but there are rows before it")
            if latest_ms is not None:
                lab.expect(latest_ms <= max(before), f"{claim}but the greatest event time before it is {max(before)}")


@rule("TIME-6", needs=(Ability.TIME_INDEX,), witness=("a row", "one of equal times", "a time after all"))
def lookup_finds_the_first_row_at_or_after_a_time(lab: Lab) -> None:
    """lookup() finds the first row at or after a time.

    The planner cuts batches by lookups. It believes an answer only if the row before it is older, and otherwise finds
    the cut by many peeks; a wrong answer that it cannot see, in disorder, is read too early. The answer is the first of
    several rows with one time, None after all rows, and in a split in disorder no row behind the first one that is due.

    Look at: a row of exactly that time, which counts; a binary search over unsorted times: search over their running
    maximum; the unit, which is whole milliseconds.
    """
    lab.split(*_at(0, 1, 999, 2_500, 2_500, 2_500, 60_000))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*_at(2_499, 2_501))
    if lab.can(Ability.MANY_SPLITS) and lab.can(Ability.DISORDER):
        lab.split(*_at(5_000, 30_000, 1_000, 8_000, 2_000, 40_000, 10_000))
    enumerator, heads = _looked_up(lab)
    for time_ms in _times_to_try(heads):
        answers = enumerator.lookup(time_ms, {split: there[0].position for split, there in heads.items()})
        for split, there in heads.items():
            first = next((head for head in there if head.event_time_ms >= time_ms), None)
            lab.expect(split in answers, f"lookup() was asked for split {split!r} and answered only for others")
            _expect_found(lab, f"lookup() in {split!r} of {time_text(time_ms)}", there, first, answers[split])
            lab.saw("a time after all" if first is None else "a row")
            if sum(head.event_time_ms == time_ms for head in there) > 1:
                lab.saw("one of equal times")


def _expect_found(lab: Lab, what: str, there: Sequence[Head], first: Head | None, answer: Head | None) -> None:
    """Raise ConformanceError for a wrong answer.  Of a split in disorder it may be an earlier row."""
    times_ms = [head.event_time_ms for head in there]
    if times_ms == sorted(times_ms):
        expected = f"the first row at or after it is {_head(first)}"
        lab.expect(answer == first, f"{what} says {_head(answer)}, but {expected}")
    elif first is not None:
        skips_none = answer is not None and answer.position <= first.position
        lab.expect(skips_none, f"{what} says {_head(answer)}, and skips {_head(first)}")


def _at(*times_ms: int) -> list[int]:
    return [BEGIN_MS + time_ms for time_ms in times_ms]


def _placed(lab: Lab, **options: str) -> tuple[SplitEnumerator, dict[SplitId, dict[int, list[str]]]]:
    """Return an enumerator, and the keys of the rows at every position."""
    source, enumerator = lab.opened(**options)
    placed = lab.placed(source, enumerator)
    return enumerator, placed


def _looked_up(lab: Lab) -> tuple[SupportsTimeIndex, dict[SplitId, list[Head]]]:
    enumerator, placed = _placed(lab)
    if not isinstance(enumerator, SupportsTimeIndex):
        raise lab.fail(f"{type(enumerator).__name__} has no lookup(), but TIME_INDEX is not opted out of")
    return enumerator, _heads(lab, placed)


def _heads(lab: Lab, placed: Mapping[SplitId, Mapping[int, Collection[str]]]) -> dict[SplitId, list[Head]]:
    """Return the positions with rows to align by.  Rows that share a position count by their least time."""
    times = {key: at_ms for key, at_ms in lab.times.items() if at_ms < IN_THE_YEAR_2200_MS}
    heads = {}
    for split, positions in placed.items():
        known = {at: [times[key] for key in keys if key in times] for at, keys in positions.items()}
        heads[split] = [Head(at, min(times_ms)) for at, times_ms in sorted(known.items()) if times_ms]
    return heads


def _witness(lab: Lab, placed: Mapping[int, Collection[str]], position: int, first: Head | None) -> None:
    lab.saw("an end" if first is None else "a row")
    if position in placed and not placed[position]:
        lab.saw("a hole")
    elif position in placed and (first is None or first.position != position):
        lab.saw("a row to leave out")


def _times_to_try(heads: Mapping[SplitId, Collection[Head]]) -> list[int]:
    times = {head.event_time_ms for there in heads.values() for head in there}
    around = {time_ms + by for time_ms in times for by in (-1, 0, 1)}
    return sorted(around | {min(times) - _HOUR_MS, max(times) + _HOUR_MS})


def _head(head: Head | None) -> str:
    return "none" if head is None else f"position {head.position} of {time_text(head.event_time_ms)}"


@rule("TIME-18", witness=("a refusal",))
def a_row_without_a_usable_time_ends_the_query_under_fail(lab: Lab) -> None:
    """A row without a usable time ends the query under fail.

    With badEventTime=fail or futureEventTime=fail the user wants a TidegateError, and not the row.

    Look at: the defaults of badEventTime and futureEventTime; a placeholder for a missing time, such as 0.
    """
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
    """Any number of rows that do not count is skipped.

    1,200 rows of the year 2200 may fill a whole page. If a split seems to end there, the others run ahead; if latest()
    counts them, the watermark does.

    Look at: a limit on the rows that peek() or latest() looks at; a maximum taken before rows are left out.
    """
    counted = after(0, 10)
    split = lab.split()
    for time_ms in counted:
        split.append_each(time_ms)
        split.append(*[IN_THE_YEAR_2200_MS] * _MANY)
    lab.saw("rows that are left out")
    enumerator = lab.enumerator(lab.source(futureEventTime="ignore"))
    ranges = lab.everything(enumerator)
    left = {part.split_id: part.start for part in ranges}
    times_ms: list[int] = []
    while left:
        heads = enumerator.peek(left, lab.horizon)
        left = {name: head.position + 1 for name in left if (head := heads[name]) is not None}
        times_ms += [head.event_time_ms for head in heads.values() if head is not None]
        lab.expect(
            len(times_ms) <= len(counted),
            f"peek() finds {time_text(times_ms[-1])}, the time of a row that does not count",
        )
    lab.expect(
        sorted(times_ms) == counted, f"peek() finds {_listed(times_ms)}, but there are rows of {_listed(counted)}"
    )
    answers = lab.latest(enumerator, {part.split_id: part.end for part in ranges}).values()
    latest = [time_ms for time_ms in answers if time_ms is not None]
    lab.expect(latest, "latest() says none, but there are rows to align by before the end")
    lab.expect(
        max(latest) <= max(counted), f"latest() says {time_text(max(latest))}, the time of a row that does not count"
    )


def _listed(times_ms: list[int]) -> str:
    return " and ".join(map(time_text, times_ms)) or "nothing"


@rule("TIME-27", witness=("a row that is left out",))
def rows_with_event_times_are_the_rows_and_have_the_times_of_the_plan(lab: Lab) -> None:
    """Rows with event times are the rows, and have the times of the plan.

    Watermark generators see what read_timed() gives: the rows of read(), in the same order and with the source's
    columns, each with its event time as an int64 in ms, or null where it does not count.

    Look at: a column of event times left in the batch; a read_timed() that sorts rows, or joins batches of several
    ranges; the raw event time of a row that is left out; the number of the range, which counts from 0 in each task.
    """
    times = after(*range(5))
    lab.split(*times[:2], IN_THE_YEAR_2200_MS, *times[2:])
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*times)
    source, enumerator = lab.opened(futureEventTime="ignore")
    ranges = lab.everything(enumerator)
    timed = _read_timed(lab, source, ranges, enumerator)
    for number, wanted in enumerate(ranges):
        plain = lab.keys(lab.read(source, [wanted], enumerator))
        own = lab.keys(batch.delivered for batch in timed if batch.number == number)
        what = f"{wanted} read without event times, and with, in a task of {len(ranges)} ranges"
        lab.refuse(ordered_difference(what, plain, own))
    for _, rows, times_ms, _ in timed:
        lab.expect(
            rows.schema.equals(source.arrow_schema),
            f"read_timed() gives {rows.schema.names}, but the source's columns are {source.arrow_schema.names}",
        )
        for key, found_ms in zip(lab.keys([rows]), times_ms.to_pylist(), strict=True):
            _expect_time(lab, key, lab.times.get(key), found_ms)


def _expect_time(lab: Lab, key: str, written_ms: int | None, found_ms: int | None) -> None:
    counts_at_ms = None if written_ms == IN_THE_YEAR_2200_MS else written_ms
    if counts_at_ms is None:
        lab.saw("a row that is left out")
    shown = "no event time" if found_ms is None else f"the event time {time_text(found_ms)}"
    expected = "none, because it is left out" if counts_at_ms is None else time_text(counts_at_ms)
    lab.expect(found_ms == counts_at_ms, f"read_timed() gives row {key} {shown}, but it has {expected}")


def _read_timed(
    lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator
) -> list[TimedBatch]:
    reader = source.reader(enumerator.snapshot())
    if not isinstance(reader, SupportsEventTimes):
        raise SkippedError(f"{type(reader).__name__} has no SupportsEventTimes, which is optional")
    timed = list(reader.read_timed(lab.task(ranges, enumerator)))
    for number, rows, times, _ in timed:
        lab.expect(number in range(len(ranges)), f"read_timed() gives rows of range {number} of {len(ranges)}")
        lab.expect(
            times.type == pa.int64() and len(times) == rows.num_rows,
            f"read_timed() gives {len(times)} event times of {times.type} for {rows.num_rows} rows, not an int64 each",
        )
    return timed
