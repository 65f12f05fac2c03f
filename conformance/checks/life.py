"""LIFE: constructors, closing, messages and secrets of a connector."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.lab.refusals import refusal
from tidegate.conformance.lab.resources import Resources
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.sources.options import option_names
from tidegate.sources.source import Source
from tidegate.spark_private import from_arrow_schema

_Made = TypeVar("_Made")
_WARM_UP = 2
_CYCLES = 3
_QUIET_LOGGERS = ("numba",)  # logs megabytes while it compiles, and knows nothing of sources


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


@rule("LIFE-11")
def an_error_is_one_sentence(lab: Lab) -> None:
    split = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    source, enumerator = lab.opened()
    there = lab.everything(enumerator)[0]
    wanted = SplitRange("never was", 0, 1)
    refusal(lab, "reading a split that never was", lambda: lab.read(source, [wanted], enumerator))
    if lab.can(Ability.RETENTION):
        split.trim(2)
        error = refusal(lab, "reading rows that were deleted", lambda: lab.read(source, [there], enumerator))
        lab.expect(error is not None, f"rows of {there.split_id} that were deleted are left out without a word")
        lab.expect(there.split_id in str(error), f"the error does not name the split {there.split_id}: {error}")
    if lab.can(Ability.REMOVABLE_SPLITS):
        split.remove()
        error = refusal(lab, "reading a split that was deleted", lambda: lab.read(source, [there], enumerator))
        lab.expect(error is not None, f"the split {there.split_id}, which was deleted, is left out without a word")


@rule("LIFE-12", witness=("an offset", "an error"))
def secrets_stay_hidden(lab: Lab) -> None:
    secrets = [shape for secret in lab.harness.secrets for shape in {secret, quote(secret, safe="")} if shape]
    if not secrets:
        raise NotApplicableError("the harness names no secrets")
    for where, text in _said(lab, secrets):
        leaked = [number for number, secret in enumerate(secrets) if secret in text]
        shown = text
        for secret in secrets:
            shown = shown.replace(secret, "*****")
        lab.expect(not leaked, f"a secret is in {where}: {shown[:400]}")


def _said(lab: Lab, secrets: list[str]) -> Iterator[tuple[str, str]]:
    """Yield all texts of a connector, each with its place."""
    rows = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS).rows
    with _logged() as lines:
        source = lab.source(maxDrift="10 seconds")
        yield "repr(source)", repr(source)
        yield "str(source)", str(source)
        yield "reads", source.reads
        yield "repr(reader)", repr(source.reader(None))
        query = Query(lab, source)
        query.run_until_read(rows)
        report = query.running.source_progress()
        query.stop()
        for offset in query.offsets:
            lab.saw("an offset")
            yield "an offset", offset
        yield "a report", json.dumps(report)
        enumerator = lab.enumerator(source)
        lab.discovered(enumerator)
        yield "repr(enumerator)", repr(enumerator)
        never = SplitRange("never was", 0, 1)
        calls = {
            "reading what never was": lambda: lab.read(source, [never], enumerator),
            **_refused(lab, source, secrets),
        }
        for what, call in calls.items():
            if (printed := _printed(call)) is not None:
                lab.saw("an error")
                yield f"the error of {what}", printed
        enumerator.close()
    for line in lines:
        yield "a log", line


def _refused(lab: Lab, source: Source, secrets: list[str]) -> dict[str, Callable[[], object]]:
    """Return calls that are most likely refused: with wrong options, some of which hold a secret."""
    calls: dict[str, Callable[[], object]] = {"an unknown option": lambda: lab.source(noSuchOption="1")}
    for field, option in option_names(type(source)).items():
        value = getattr(source, field, None)
        if isinstance(value, str) and any(secret in value for secret in secrets):
            calls[f"a malformed {option}"] = partial(lab.harness.source, {option: f"\n{value}\n"})
    return calls


def _printed(call: Callable[[], object]) -> str | None:
    """Return the printed text of a call's error, with all its causes."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it would be printed
        return "".join(traceback.format_exception(error))
    return None


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Keep all that is logged, at any level."""
    lines: list[str] = []

    class _Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, keeper = logging.getLogger(), _Keeper()
    quiet = [logging.getLogger(name) for name in _QUIET_LOGGERS]
    levels = [(logger, logger.level) for logger in (root, logging.getLogger("tidegate"), *quiet)]
    root.addHandler(keeper)
    for logger, _ in levels:
        logger.setLevel(logging.WARNING if logger in quiet else logging.DEBUG)
    try:
        yield lines
    finally:
        for logger, level in levels:
            logger.setLevel(level)
        root.removeHandler(keeper)
