"""LIFE: the optional protocols of an enumerator."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Positions, SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.harness import Fault
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.resources import acts
from tidegate.conformance.rules import Level
from tidegate.enumerators.contract import (
    SplitEnumerator,
    SupportsClock,
    SupportsCommit,
    SupportsCost,
    SupportsDetails,
    SupportsMetrics,
)
from tidegate.readers.contract import ReadTask

__all__ = [
    "check_commit_may_be_repeated",
    "check_costs_add_up",
    "check_details_lead_to_the_same_rows",
    "check_metrics_have_names_of_spark",
    "check_the_clock_is_of_this_time",
]

_MOST_METRICS = 20
_DAY_S = 86_400
_AT_ONCE_S = 0.5


@rule(
    "LIFE-14",
    "metrics are few numbers with the names of Spark",
    level=Level.SHOULD,
    purpose="Metrics are in every progress of the query. Dashboards do not find other names and types.",
    tested="metrics() is called before and after discovery.",
    passes=f"There are at most {_MOST_METRICS} metrics. Each has a name in camelCase and an int. metrics() does not "
    "ask the source.",
    look_at=("NumPy numbers, floats and booleans", "names with underscores", "a metric for each split: add them up"),
    source="SupportsMetrics.metrics",
)
def check_metrics_have_names_of_spark(lab: Lab) -> None:
    """Look at metrics."""
    enumerator = _opened(lab)
    if not isinstance(enumerator, SupportsMetrics):
        raise _lacks(enumerator, SupportsMetrics.__name__)
    looked = [("before discover()", enumerator.metrics())]
    lab.discovered(enumerator)
    looked.append(("after discover()", _quietly(lab, "metrics()", enumerator.metrics)))
    for when, figures in looked:
        lab.expect(len(figures) <= _MOST_METRICS, f"there are {len(figures)} metrics {when}")
        for name, value in figures.items():
            lab.expect(re.fullmatch("[a-z][A-Za-z0-9]*", name), f"the metric {name!r} {when} is not in camelCase")
            lab.expect(type(value) is int, f"the metric {name!r} {when} is {value!r}, which is not an int")


@rule(
    "LIFE-15",
    "the other side's clock tells this time",
    level=Level.SHOULD,
    purpose="The clock decides which rows are in the future. Milliseconds that are taken for seconds hold or drop "
    "every row.",
    tested="wall_clock() is called until it advances.",
    passes="It returns seconds since 1970, within a day of this machine's time. It never goes back, and makes no "
    "request.",
    look_at=(
        "milliseconds instead of seconds",
        "a time in another zone",
        "a request for each call: keep the difference from the local clock",
    ),
    source="SupportsClock.wall_clock",
)
def check_the_clock_is_of_this_time(lab: Lab) -> None:
    """Look at the clock."""
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


@rule(
    "LIFE-16",
    "commit() may be repeated and may be missing",
    purpose="commit() is called before every plan, often with the same positions. It is never called for the last "
    "batch of a run.",
    tested="A run repeats commit() while nothing is read. Two more runs begin at the same positions. The last one "
    "repeats commit() when all is read.",
    passes="Every run finds and reads the rows that are not committed. Repeated calls change nothing.",
    look_at=(
        "resources that are released before the positions cover them",
        "counters that add what was committed before",
    ),
    witness=("rows that are not committed",),
    source="SupportsCommit.commit",
)
def check_commit_may_be_repeated(lab: Lab) -> None:
    """Commit again and again."""
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


@rule(
    "LIFE-17",
    "details lead to the same rows",
    purpose="A batch is planned once and read often, also with the details of another planner.",
    tested="Every split and its halves are read three times with pickled details. The details come from an "
    "enumerator, from the same one later, and from a restored one.",
    passes="All readings give the same rows.",
    look_at=("a clock or a random id in details", "facts that only the run that discovered a split knows"),
    source="SupportsDetails.details: the same rows for the same range",
)
def check_details_lead_to_the_same_rows(lab: Lab) -> None:
    """Ask for details again and again."""
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
        tasks = [pickle.loads(pickle.dumps(ReadTask((part,), (entry,)))) for entry in answers]  # noqa: S301 - its own
        first_keys, two, three = (lab.keys(source.reader(reader_state).read(task)) for task in tasks)
        for other, when in ((two, "later"), (three, "after a restart")):
            wrong = ordered_difference(f"{part} read with details, and with those given {when}", first_keys, other)
            if wrong is not None:
                raise lab.fail(wrong)


@rule(
    "LIFE-18",
    "costs add up",
    level=Level.SHOULD,
    purpose="The planner cuts batches by bisecting costs. If a part costs more than the whole, a batch exceeds its "
    "budget.",
    tested="cost() is called for no ranges, for splits alone and together, and for halves of them.",
    passes="Without ranges, the cost is zero. Splits together cost what they cost alone, up to rounding. A half "
    "costs no more than the whole, and both halves no less. With positions_are_rows, the cost in rows is the number "
    "of positions. cost() does no I/O.",
    look_at=(
        "rounding for each range instead of once",
        "a shared cost that several ranges count",
        "the end of a range: it is exclusive",
    ),
    source="SupportsCost.cost: no I/O",
)
def check_costs_add_up(lab: Lab) -> None:
    """Ask for costs of parts."""
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
