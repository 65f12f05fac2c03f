"""LIFE: constructors, and closing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidegate.conformance.lab.lab import BEGIN_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.lab.resources import Resources
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.sources.source import Source
from tidegate.spark_private import from_arrow_schema

_Made = TypeVar("_Made")
_WARM_UP = 2
_CYCLES = 3


@rule("LIFE-1")
def constructors_open_nothing(lab: Lab) -> None:
    lab.split(BEGIN_MS)
    source = lab.source()
    # Spark's data source does the same, so that the source does not look up its schema again.
    source = source.with_schema(from_arrow_schema(source.arrow_schema))
    _expect_quiet(lab, "a source", lab.source)
    stream = source.as_stream()
    _expect_quiet(lab, "a reader", lambda: stream.reader(None))
    first = _expect_quiet(lab, "an enumerator", lambda: stream.enumerator(None))
    first.close()
    state = _state_of(lab, source)
    _expect_quiet(lab, "a reader with a state", lambda: stream.reader(state))
    _expect_quiet(lab, "an enumerator with a state", lambda: stream.enumerator(state)).close()


@rule("LIFE-2", witness=("a reader that is given up",))
def queries_and_readers_leave_nothing_open(lab: Lab) -> None:
    split = lab.split(*after(*range(4)))
    source, enumerator = lab.opened()
    task, state = lab.task(lab.everything(enumerator), enumerator), enumerator.snapshot()
    enumerator.close()

    def run() -> None:
        query = Query(lab, source)
        query.run_until_read(split.rows)
        query.stop()
        batches = iter(source.reader(state).read(task))
        if next(batches, None) is not None:
            lab.saw("a reader that is given up")
        del batches  # as Spark's worker does, when a task is killed

    _expect_no_growth(lab, run)


@rule("LIFE-4", waits=False)
def close_may_come_at_any_time(lab: Lab) -> None:
    lab.split(BEGIN_MS)
    stream = lab.source().as_stream()
    for moment, used in (("before it was asked anything", False), ("after discover()", True)):
        enumerator = stream.enumerator(None)
        if used:
            enumerator.extents(enumerator.discover())
        _close(lab, enumerator, moment)
        _close(lab, enumerator, f"{moment}, for the second time")


def _close(lab: Lab, enumerator: SplitEnumerator, moment: str) -> None:
    try:
        enumerator.close()
    except Exception as error:
        raise lab.fail(f"close() {moment} raises {type(error).__name__}: {error}") from error


def _state_of(lab: Lab, source: Source) -> Json | None:
    enumerator = lab.enumerator(source)
    lab.discovered(enumerator)
    state = enumerator.snapshot()
    enumerator.close()
    return state


def _expect_quiet(lab: Lab, what: str, make: Callable[[], _Made]) -> _Made:
    before = Resources.now()
    instance = make()
    grown = Resources.now().beyond(before)
    lab.expect(grown is None, f"making {what} leaves {grown}")
    return instance


def _expect_no_growth(lab: Lab, cycle: Callable[[], None]) -> None:
    """Raise ConformanceError if repeating an action makes the process hold more resources."""
    for _ in range(_WARM_UP):
        cycle()
    before = Resources.now()
    for _ in range(_CYCLES):
        cycle()
    # Resources that end by themselves may take a moment.
    lab.until(
        lambda: True if Resources.now().beyond(before) is None else None,
        lambda: f"after {_CYCLES} more queries there are {Resources.now().beyond(before)}",
    )
