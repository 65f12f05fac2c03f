"""READ: every row is delivered as it was written, whatever is in it."""

from __future__ import annotations

from datetime import datetime

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.explain import first_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.rules import rule

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
    "a huge one": "0123456789" * 200_000,
}
_NULLS = {"a null": None, "an empty text behind it": "", "a word": "null", "a last null": None}
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


@rule("READ-15")
def values_come_as_they_were_written(lab: Lab) -> None:
    values: dict[str, str | None] = {**_TEXTS, **(_NULLS if lab.can(Ability.NULL_VALUES) else {})}
    lab.split().append(*after(*range(len(values))), values=list(values.values()))
    source, enumerator = lab.opened()
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    for (name, wanted), read in zip(values.items(), lab.values(batches), strict=True):
        lab.expect(read == wanted, f"{name} was written, {_named(wanted)}, and {_unlike(wanted, read)} was read")


@rule("READ-18")
def event_times_do_not_change_what_is_read(lab: Lab) -> None:
    times: list[int | None] = [*after(0, 1)]
    if lab.can(Ability.DISORDER):
        times += [*after(5, 1, 9, 1, 0, 5), BEGIN_MS - 4 * 365 * 86_400 * SECOND_MS, *after(3)]
    if lab.can(Ability.MISSING_TIMES):
        times += [None, *after(10), None, None]
    if lab.can(Ability.NEGATIVE_TIMES):
        times += [-1, -86_400_000, 0, *after(11)]
    lab.split(*times)
    source, enumerator = lab.opened(badEventTime="ignore")
    # Without positions of rows, planning orders units of rows by their times.
    keys = lab.keys(lab.read(source, lab.everything(enumerator), enumerator))
    lab.compare(keys, in_order=lab.can(Ability.ROW_POSITIONS))


@rule("READ-26", needs=(Ability.EVENT_TIME_COLUMN,))
def event_times_come_as_they_were_written(lab: Lab) -> None:
    lab.split(*(round(datetime.fromisoformat(time).timestamp() * SECOND_MS) for time in _TIMES))
    source, enumerator = lab.opened()
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    lab.expect_event_times(batches)


def _unlike(wanted: str | None, read: str | None) -> str:
    if wanted is None or read is None or max(len(wanted), len(read)) <= 40:
        return _named(read)
    at = first_difference(wanted, read)
    return f"{_named(read)}, other from character {at:,} on,"


def _named(value: str | None) -> str:
    if value is None:
        return "null"
    return ascii(value) if len(value) <= 40 else f"a text of {len(value):,} characters"
