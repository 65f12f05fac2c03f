"""READ: every row is delivered as it was written, whatever is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after

__all__ = [
    "check_event_times_come_as_they_were_written",
    "check_event_times_do_not_change_what_is_read",
    "check_huge_values_come_whole",
    "check_null_is_neither_empty_nor_a_word",
    "check_rows_before_1970_are_read",
    "check_rows_without_event_time_are_read",
    "check_values_come_as_they_were_written",
]

_TEXTS = {
    "an empty text": "",
    "blanks": "  a b  ",
    "a tab and line ends": "a\tb\nc\r\nd\r",
    "quotes, commas and backslashes": "\"a\",'b';\\n|\\",
    "what looks like a null": "null",
    "what looks like JSON": '{"key": [1, null]}',
    "what looks like a number": "007",
    "what looks like another number": "1e400",
    "what looks like a time": "2026-01-01T00:00:00Z",
    "letters of other alphabets": "äß Ω я 日本 ש",
    "signs beyond 16 bits": "\U0001f30a\U00010348",
    "an accent of its own": "e\u0301",
    "marks that nobody sees": "\ufeffa\u200b\u2028b",
}
_TIMES = (
    "2000-02-29T12:00:00+00:00",
    "2025-03-09T10:00:00+00:00",  # clocks go forward in America
    "2025-03-30T01:00:00+00:00",  # and in Europe
    "2025-10-26T00:30:00+00:00",  # and turn back: half past two
    "2025-10-26T01:30:00+00:00",  # half past two again
    "2026-01-01T00:00:00+00:00",
    "2026-01-01T00:00:00.001+00:00",
    "2026-01-01T00:00:00.999+00:00",
)
_HUGE = 2_000_000


@rule(
    "READ-15",
    "values come as they were written",
    purpose="A changed value is wrong data, and nobody notices.",
    tested="Rows have values of all kinds: empty, with quotes, line ends and blanks, and of other alphabets. Some "
    "look like a null, a number, a time or JSON.",
    passes="Every value is, character by character, the one that was written.",
    look_at=(
        "texts that are stripped, normalised or parsed",
        "an encoding other than UTF-8",
        "an empty text that becomes null",
    ),
    source="SplitReader.read",
)
def check_values_come_as_they_were_written(lab: Lab) -> None:
    """Write values that are easily broken."""
    _expect_values(lab, _TEXTS)


@rule(
    "READ-16",
    "null is neither empty nor a word",
    purpose="Null and empty mean different things to those who use the rows.",
    tested="Neighbouring rows have null, an empty text and the word null as values.",
    passes="Every value comes unchanged.",
    look_at=(
        "a default for null in a client",
        "a format that writes both in the same way",
        "a row that is left out because of a null",
    ),
    needs=(Ability.NULL_VALUES,),
    source="SplitReader.read",
)
def check_null_is_neither_empty_nor_a_word(lab: Lab) -> None:
    """Write nulls."""
    _expect_values(
        lab, {"a null": None, "an empty text": "", "a null behind it": None, "a word": "null", "a last null": None}
    )


@rule(
    "READ-17",
    "huge values come whole",
    purpose="An unknown limit cuts values, or ends the query, on the day when a large one comes.",
    tested=f"A value of {_HUGE // 1_000_000} MB lies between small ones.",
    passes="All values come whole and in order.",
    look_at=("a limit on the size of one answer", "a row that does not fit and is left out", "offsets of 16 bits"),
    source="SplitReader.read; Row.value",
)
def check_huge_values_come_whole(lab: Lab) -> None:
    """Write a huge value."""
    _expect_values(lab, {"a small one": "a", "a huge one": "0123456789" * (_HUGE // 10), "another small one": "b"})


@rule(
    "READ-18",
    "event times do not change what is read",
    purpose="A range is defined by positions. If a reader sorts or filters by time, every cut gives other rows.",
    tested="The rows of a split are out of event-time order. Some have the same event time, and one is years older.",
    passes="Every row comes once and, if rows have positions, in their order.",
    look_at=("a request that is ordered by time", "a filter that leaves out the rows that planning leaves out"),
    needs=(Ability.DISORDER,),
    source="SplitReader.read: in position order",
)
def check_event_times_do_not_change_what_is_read(lab: Lab) -> None:
    """Write rows out of order."""
    years_ms = 4 * 365 * 86_400 * SECOND_MS
    split = lab.split(*after(5, 1, 9, 1, 0, 5), BEGIN_MS - years_ms)
    split.append_each(*after(3))
    # Without positions of rows, planning orders units of rows by their times.
    _expect_all(lab, {}, in_order=lab.can(Ability.ROW_POSITIONS))


@rule(
    "READ-19",
    "rows without event time are read",
    purpose="With badEventTime=ignore, planning leaves these rows out, but the query must still deliver them.",
    tested="badEventTime is ignore. Rows without event time lie before, between and after others.",
    passes="Every row comes once and, if rows have positions, in their order.",
    look_at=("a filter by time in the reader", "a comparison with null, which is neither true nor false"),
    needs=(Ability.MISSING_TIMES,),
    source="Source.bad_event_time: the row is delivered",
)
def check_rows_without_event_time_are_read(lab: Lab) -> None:
    """Write rows without event time."""
    lab.split(None, BEGIN_MS, None, None, BEGIN_MS + SECOND_MS, None)
    _expect_all(lab, {"badEventTime": "ignore"}, in_order=lab.can(Ability.ROW_POSITIONS))


@rule(
    "READ-20",
    "rows before 1970 are read",
    purpose="With badEventTime=ignore, planning leaves these rows out, but the query must still deliver them.",
    tested="badEventTime is ignore. Rows with event times before 1970 lie between others.",
    passes="Every row comes once and, if rows have positions, in their order.",
    look_at=("a time that is taken for unsigned", "a filter by time in the reader"),
    needs=(Ability.NEGATIVE_TIMES,),
    source="Source.bad_event_time: the row is delivered",
)
def check_rows_before_1970_are_read(lab: Lab) -> None:
    """Write rows with negative event times."""
    lab.split(BEGIN_MS, -1, -86_400_000, 0, BEGIN_MS + SECOND_MS)
    _expect_all(lab, {"badEventTime": "ignore"}, in_order=lab.can(Ability.ROW_POSITIONS))


@rule(
    "READ-26",
    "event times come as they were written",
    purpose="Spark's windows and watermark use the event-time column. A row whose time shifts is late or in another "
    "window, however well it was planned.",
    tested="Rows have event times of all kinds: full seconds, milliseconds, a leap day, and years apart. Some lie "
    "around the hours at which clocks change.",
    passes="Every row has the event time with which it was written, to the millisecond.",
    look_at=(
        "a time that is read in the time zone of the machine",
        "seconds, milliseconds and microseconds that are mistaken for each other",
        "the time of another column, such as the time of writing",
    ),
    needs=(Ability.EVENT_TIME_COLUMN,),
    source="Harness.event_time_column",
)
def check_event_times_come_as_they_were_written(lab: Lab) -> None:
    """Write event times that are easily shifted."""
    lab.split(*(round(datetime.fromisoformat(time).timestamp() * SECOND_MS) for time in _TIMES))
    source = lab.source()
    enumerator = lab.enumerator(source)
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    lab.expect_event_times(batches)


def _expect_all(lab: Lab, options: Mapping[str, str], *, in_order: bool) -> None:
    source = lab.source(**options)
    enumerator = lab.enumerator(source)
    lab.compare(lab.keys(lab.read(source, lab.everything(enumerator), enumerator)), in_order=in_order)


def _expect_values(lab: Lab, values: Mapping[str, str | None]) -> None:
    """Append named values by one call, and read them."""
    lab.split().append(*after(*range(len(values))), values=list(values.values()))
    source = lab.source()
    enumerator = lab.enumerator(source)
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    for (name, wanted), read in zip(values.items(), lab.values(batches), strict=True):
        lab.expect(read == wanted, f"{name} was written, {_named(wanted)}, and {_unlike(wanted, read)} was read")


def _unlike(wanted: str | None, read: str | None) -> str:
    if wanted is None or read is None or max(len(wanted), len(read)) <= 40:
        return _named(read)
    at = _first_difference(wanted, read)
    return f"{_named(read)}, other from character {at:,} on,"


def _first_difference(first: Sequence[str], second: Sequence[str]) -> int:
    differing = (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


def _named(value: str | None) -> str:
    if value is None:
        return "null"
    return ascii(value) if len(value) <= 40 else f"a text of {len(value):,} characters"
