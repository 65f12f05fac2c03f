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

from tidegate.add_ons import option_names
from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.base import SkippedError
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.processes import Resources
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.connector import Json, Source, SplitEnumerator, SplitRange
from tidegate.errors import TidegateError
from tidegate.spark_private import from_arrow_schema

_Made = TypeVar("_Made")
_WARM_UP = 2
_CYCLES = 3
_LONGEST = 600
_TRACES = ("Traceback (most recent call last)", 'File "', "<object object", " object at 0x")
_QUIET_LOGGERS = ("numba",)  # logs megabytes while it compiles, and knows nothing of sources


@rule("LIFE-1")
def constructors_open_nothing(lab: Lab) -> None:
    """Constructors open nothing.

    Spark makes sources and readers in many processes, and drops them without closing. No constructor leaves a
    connection, process, thread or file open.

    Look at: clients that connect when they are made: make them for the first request; pools and executors in __init__;
    an enumerator() or reader() that asks for arrow_schema again after with_schema().
    """
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
    """Queries and readers leave nothing open.

    A driver lives for months and starts many queries; an executor runs thousands of tasks, many of which Spark
    abandons. More of them add no threads, processes, sockets or files.

    Look at: close() of the enumerator, which closes every client, pool and thread; resources of a reader that are
    closed after a loop with yield: use a with or a finally; clients that are dropped after an error.
    """
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


@rule("LIFE-4")
def close_may_come_at_any_time(lab: Lab) -> None:
    """close() may come at any time.

    It is called after other errors, perhaps twice or before the first call, and an error of its own would hide them.

    Look at: attributes that only the first discover() sets; clients that cannot be closed twice.
    """
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
    """An error is one sentence.

    People read errors at night. Reading deleted rows, a deleted split or one that never was ends with an error of
    tidegate in one sentence, which names the split of lost rows.

    Look at: errors of the client that are not mapped: use raise ... from; ids that are parsed without a check.
    """
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


def refusal(
    lab: Lab, doing: str, call: Callable[[], object], kind: type[TidegateError] = TidegateError
) -> TidegateError | None:
    """Return the error of a call that refuses; None: it raises nothing.

    Raises ConformanceError if it raises another error, or not one sentence.
    """
    try:
        call()
    except kind as error:
        expect_sentence(lab, doing, error)
        return error
    except AssertionError:
        raise  # the kit's own complaint
    except Exception as error:
        raise lab.fail(f"{doing}: raises {type(error).__name__} ({error}) instead of {kind.__name__}") from error
    return None


def expect_sentence(lab: Lab, doing: str, error: TidegateError) -> None:
    """Raise ConformanceError unless an error is one sentence for people."""
    text = str(error)
    name = type(error).__name__
    lab.expect(text.strip(), f"{doing}: raises {name} without a word")
    lab.expect("\n" not in text.strip(), f"{doing}: raises {name} with several lines instead of one sentence: {text}")
    lab.expect(len(text) <= _LONGEST, f"{doing}: raises {name} with {len(text)} characters: {text[:_LONGEST]}...")
    traces = [trace for trace in _TRACES if trace in text]
    lab.expect(not traces, f"{doing}: raises {name} with what only programmers read ({traces}): {text}")


@rule("LIFE-12", witness=("an offset", "an error"))
def secrets_stay_hidden(lab: Lab) -> None:
    """Secrets stay hidden.

    Everybody who sees a shared log would know a password in it. Texts of source, enumerator and reader, logs at DEBUG,
    offsets, progress and errors with their causes contain none of the harness's secrets.

    Look at: fields that hold secrets: set repr=False, which also hides them in errors; addresses with a password;
    options in the snapshot.
    """
    secrets = [shape for secret in lab.harness.secrets for shape in {secret, quote(secret, safe="")} if shape]
    if not secrets:
        raise SkippedError("the harness names no secrets")
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
