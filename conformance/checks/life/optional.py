"""LIFE: the optional protocols of an enumerator."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable
from typing import Any

from tidegate.alignment.budget import Cost
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
    SupportsCost,
    SupportsDetails,
)
from tidegate.readers.contract import ReadTask

_DAY_S = 86_400
_AT_ONCE_S = 0.5


@rule("LIFE-15")
def the_clock_is_of_this_time(lab: Lab) -> None:
    enumerator = _opened(lab)
    if not isinstance(enumerator, SupportsClock):
        raise _lacks(enumerator, SupportsClock.__name__)
    lab.discovered(enumerator)
    first: float = _quietly(lab, "wall_clock()", enumerator.wall_clock)
    lab.expect(
        abs(first - time.time()) < _DAY_S, f"wall_clock() says {first!r}, but this machine's clock {time.time():.0f}"
    )

    def gone_on() -> bool:
        now = enumerator.wall_clock()
        lab.expect(now >= first, f"wall_clock() goes back, from {first!r} to {now!r}")
        return now > first

    lab.until(lambda: gone_on() or None, f"wall_clock() says {first!r}, again and again")


@rule("LIFE-16", witness=("rows that are not committed",))
def commit_may_be_repeated(lab: Lab) -> None:
    lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    source = lab.source()
    enumerator = lab.enumerator(source)
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
    source = lab.source()
    enumerator = lab.enumerator(source)
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
            wrong = ordered_difference(f"{part} read with details, and with those given {when}", first_keys, other)
            if wrong is not None:
                raise lab.fail(wrong)


@rule("LIFE-18")
def costs_add_up(lab: Lab) -> None:
    for _ in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    enumerator = lab.enumerator(lab.source())
    if not isinstance(enumerator, SupportsCost):
        raise _lacks(enumerator, SupportsCost.__name__)
    cost_of, positions_are_rows = enumerator.cost, enumerator.positions_are_rows
    whole = lab.everything(enumerator)

    def cost(*ranges: SplitRange) -> Cost:
        return cost_of({part.split_id: part for part in ranges})

    together = _quietly(lab, "cost()", lambda: cost(*whole))
    lab.expect(cost() == Cost(), f"nothing costs {cost()}")
    alone = [cost(whole_range) for whole_range in whole]
    for unit in ("rows", "bytes", "files"):
        total, parts = getattr(together, unit), sum(getattr(whole_range, unit) for whole_range in alone)
        # Each may have been rounded.
        lab.expect(abs(total - parts) <= len(alone), f"splits cost {parts} {unit} alone, but {total} together")
        for whole_range, of_all in zip(whole, alone, strict=True):
            halves = [getattr(cost(half), unit) for half in _halves(whole_range)]
            of_whole = getattr(of_all, unit)
            lab.expect(
                max(halves) <= of_whole <= sum(halves) + 1,
                f"{whole_range} costs {of_whole} {unit}, but its halves {' and '.join(map(str, halves))}",
            )
    for part in [half for whole_range in whole for half in _halves(whole_range)] if positions_are_rows else []:
        rows, positions = cost(part).rows, part.end - part.start
        lab.expect(rows == positions, f"{part} costs {rows} rows, but has {positions} positions")


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
