"""LIFE: the optional protocols of an enumerator."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable
from typing import Any

from tidegate.alignment.splits import Positions, SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.harness import Fault
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.resources import acts
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import (
    SplitEnumerator,
    SupportsClock,
    SupportsCommit,
    SupportsDetails,
)
from tidegate.readers.contract import ReadTask

_MOST_S = 600
_AT_ONCE_S = 0.5


@rule("LIFE-15")
def the_clock_is_of_this_time(lab: Lab) -> None:
    enumerator = _opened(lab)
    if not isinstance(enumerator, SupportsClock):
        raise _lacks(enumerator, SupportsClock.__name__)
    lab.discovered(enumerator)
    first: float = _quietly(lab, "wall_clock()", enumerator.wall_clock)
    lab.expect(
        abs(first - time.time()) < _MOST_S, f"wall_clock() says {first!r}, but this machine's clock {time.time():.0f}"
    )

    def gone_on() -> bool:
        now = enumerator.wall_clock()
        lab.expect(now >= first, f"wall_clock() goes back, from {first!r} to {now!r}")
        return now > first

    lab.until(lambda: gone_on() or None, f"wall_clock() says {first!r}, again and again")


@rule("LIFE-16", witness=("rows that are not committed",))
def commit_may_be_repeated(lab: Lab) -> None:
    lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    source, enumerator = lab.opened()
    _commit(enumerator, {})
    ranges = lab.everything(enumerator)
    rows = lab.keys(lab.read(source, ranges, enumerator))
    begin = {part.split_id: part.start for part in ranges}
    end = {part.split_id: part.end for part in ranges}
    state = enumerator.snapshot()
    for number in range(3):
        _commit(enumerator, begin)
        again = _there(enumerator)
        lab.expect(
            again == ranges, f"after commit number {number + 1} while nothing is read, there are {again}, not {ranges}"
        )
    enumerator.close()
    lab.saw("rows that are not committed")
    # The runs after one that ended without a commit of its last batch.
    for number in range(2):
        enumerator = lab.enumerator(source, state, begin)
        keys = lab.keys(lab.read(source, _there(enumerator), enumerator))
        lab.expect(sorted(keys) == sorted(rows), f"run {number + 2} finds {len(keys)} of {len(rows)} unread rows")
        if number:
            for _ in range(3):
                _commit(enumerator, end)
                enumerator.extents(enumerator.discover())
        enumerator.close()


@rule("LIFE-17")
def details_lead_to_the_same_rows(lab: Lab) -> None:
    lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(3)))
    source, enumerator = lab.opened()
    _details(enumerator, ())
    whole = lab.everything(enumerator)
    parts = [*whole, *(part for entry in whole for part in _halves(entry))]
    first, asked_ms = _details(enumerator, parts), _now_ms()
    lab.until(lambda: _now_ms() > asked_ms or None, "the millisecond does not end")
    second = _details(enumerator, parts)
    restored = lab.restarted(
        source, enumerator, {part_of_whole.split_id: part_of_whole.start for part_of_whole in whole}
    )
    third = _details(restored, parts)
    reader_state = enumerator.snapshot()
    for part, *answers in zip(parts, first, second, third, strict=True):
        tasks = [pickle.loads(pickle.dumps(ReadTask((part,), (entry,), lab.horizon))) for entry in answers]  # noqa: S301 - its own
        first_keys, two, three = (lab.keys(source.reader(reader_state).read(task)) for task in tasks)
        for other, when in ((two, "later"), (three, "after a restart")):
            lab.refuse(ordered_difference(f"{part} read with details, and with those given {when}", first_keys, other))


def _there(enumerator: SplitEnumerator) -> list[SplitRange]:
    """Return a range for each split that holds anything."""
    extents = enumerator.extents(enumerator.discover())
    return [
        SplitRange(s, extent.begin, extent.end) for s, extent in sorted(extents.items()) if extent.begin < extent.end
    ]


def _opened(lab: Lab) -> SplitEnumerator:
    lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    return lab.enumerator(lab.source())


def _lacks(enumerator: SplitEnumerator, protocol: str) -> NotApplicableError:
    return NotApplicableError(f"{type(enumerator).__name__} has no {protocol}, which is optional")


def _commit(enumerator: SplitEnumerator, positions: Positions) -> None:
    if not isinstance(enumerator, SupportsCommit):
        raise _lacks(enumerator, SupportsCommit.__name__)
    enumerator.commit(positions)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _details(enumerator: SplitEnumerator, ranges: Iterable[SplitRange]) -> list[Any]:
    if not isinstance(enumerator, SupportsDetails):
        raise _lacks(enumerator, SupportsDetails.__name__)
    return [enumerator.details(part) for part in ranges]


def _quietly(lab: Lab, what: str, call: Callable[[], Any]) -> Any:
    """Return the result of a call that must do no I/O."""
    with acts() as done:
        result = call()
    lab.expect(not done, f"{what} {' and '.join(dict.fromkeys(done))}, but must do no I/O")
    if lab.can(Ability.FAULT_SLOW):
        with lab.harness.fault(Fault.SLOW):
            begun = time.monotonic()
            call()
            took_s = time.monotonic() - begun
        lab.expect(took_s < _AT_ONCE_S, f"{what} takes {took_s:.1f} s while the source is slow, but must not ask it")
    return result


def _halves(whole: SplitRange) -> list[SplitRange]:
    """Return a range in two parts; one of them may be empty."""
    middle = (whole.start + whole.end) // 2
    return [SplitRange(whole.split_id, whole.start, middle), SplitRange(whole.split_id, middle, whole.end)]
