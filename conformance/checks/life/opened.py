"""LIFE: constructors, closing, and pickling."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.query import Query
from tidegate.conformance.lab.resources import Resources, acts
from tidegate.conformance.rules import Level
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.sources.source import Source

__all__ = [
    "check_a_reader_leaves_nothing_open",
    "check_a_run_leaves_nothing_open",
    "check_a_source_cannot_be_changed",
    "check_a_source_travels",
    "check_a_task_travels",
    "check_close_may_come_at_any_time",
    "check_constructors_open_nothing",
]

_Made = TypeVar("_Made")
_WARM_UP = 2
_CYCLES = 3


@rule(
    "LIFE-1",
    "constructors open nothing",
    purpose="Spark makes sources and readers in many processes, copies them, and drops them without closing. What "
    "they open stays open. A server that is away breaks steps that need no server.",
    tested="The kit makes a source, and enumerators and readers with and without a state. It watches what the "
    "process holds and does.",
    passes="A constructor makes no connection, looks up no host, starts no process and writes no file. It adds no "
    "thread, process, socket or file.",
    look_at=(
        "clients that connect when they are made: make them for the first request",
        "pools and executors in __init__",
        "an enumerator() or reader() that asks for arrow_schema again after with_schema()",
    ),
    source="Source: it opens nothing itself; SplitEnumerator: the constructor opens nothing; SplitReader",
)
def check_constructors_open_nothing(lab: Lab) -> None:
    """Watch constructors."""
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


@rule(
    "LIFE-2",
    "a run leaves nothing open",
    purpose="A driver lives for months and starts many queries. What each query leaves open adds up until nothing is "
    "left.",
    tested=f"A query runs and is stopped {_WARM_UP} times, and then {_CYCLES} more times.",
    passes=f"The last {_CYCLES} runs add no threads, processes, sockets or files. A pool of the process may keep what "
    "the first runs opened.",
    look_at=(
        "close() of the enumerator: close every client, pool and thread that it made",
        "resources that are opened again after close()",
        "clients that are dropped after an error and never closed",
    ),
    source="SplitEnumerator.close: release all resources",
)
def check_a_run_leaves_nothing_open(lab: Lab) -> None:
    """Start and stop a query several times."""
    split = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)

    def run() -> None:
        query = Query(lab, lab.source())
        query.run_until_read(split.rows)
        query.stop()

    _expect_no_growth(lab, "runs of a query", run)


@rule(
    "LIFE-3",
    "a reader leaves nothing open",
    purpose="An executor runs thousands of tasks in one process, and Spark abandons many of them.",
    tested=f"In each of {_WARM_UP + _CYCLES} rounds, one reader reads a range to its end, and another reads only the "
    "first batch.",
    passes=f"The last {_CYCLES} rounds add no threads, processes, sockets or files.",
    look_at=(
        "resources that are closed after a loop with yield: use a with or a finally",
        "files and clients of a batch that nobody requested",
    ),
    witness=("a reader that is given up",),
    source="SplitReader: connections that outlive the task belong to the worker process",
)
def check_a_reader_leaves_nothing_open(lab: Lab) -> None:
    """Read, and give up reading."""
    lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    task = lab.task(lab.everything(enumerator), enumerator)
    state = enumerator.snapshot()

    def read() -> None:
        for _ in source.reader(state).read(task):
            pass
        batches = iter(source.reader(state).read(task))
        if next(batches, None) is not None:
            lab.saw("a reader that is given up")
        del batches  # as Spark's worker does, when a task is killed

    _expect_no_growth(lab, "tasks", read)


@rule(
    "LIFE-4",
    "close() may come at any time",
    level=Level.SHOULD,
    purpose="close() is called after other errors. If it raises one itself, it hides them.",
    tested="Enumerators are closed before their first call and after discovery, each of them twice.",
    passes="close() raises nothing.",
    look_at=("attributes that only the first discover() sets", "clients that cannot be closed twice"),
    source="SplitEnumerator.close: perhaps twice",
    waits=False,
)
def check_close_may_come_at_any_time(lab: Lab) -> None:
    """Close unused enumerators, and used ones twice."""
    lab.split(BEGIN_MS)
    stream = lab.source().as_stream()
    for moment, used in (("before it was asked anything", False), ("after discover()", True)):
        enumerator = stream.enumerator(None)
        if used:
            enumerator.extents(enumerator.discover())
        _close(lab, enumerator, moment)
        _close(lab, enumerator, f"{moment}, for the second time")


@rule(
    "LIFE-5",
    "a source travels to other processes",
    purpose="Spark pickles a source for the planner and for every executor. A client in it leads to an error that "
    "names nothing.",
    tested="PySpark's cloudpickle pickles a source before its use and after it. The first copy reads.",
    passes="Both copies are equal to the source. The first copy reads the same rows.",
    look_at=(
        "clients, locks and caches that a source keeps after its first use",
        "private attributes, which pickling leaves out or rejects",
        "__eq__ of the values of fields",
    ),
    source="Source: immutable and picklable",
)
def check_a_source_travels(lab: Lab) -> None:
    """Pickle a source."""
    lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source = lab.source(maxDrift="10 seconds")
    copy = _travelled(lab, "a source", source)
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    rows = lab.keys(lab.read(source, ranges, enumerator))
    _travelled(lab, "a source that was used", source)
    wrong = ordered_difference("read by a source, and by its copy", rows, lab.keys(lab.read(copy, ranges, enumerator)))
    lab.expect(wrong is None, wrong or "")


@rule(
    "LIFE-6",
    "a task travels to other processes",
    purpose="The driver pickles a task with its details and snapshot. An executor unpickles it.",
    tested="A task with its details is pickled and unpickled, and so is a snapshot. A reader reads the copy of the "
    "task.",
    passes="The copies are equal to the originals. The reader gives every row once and in order.",
    look_at=("open files, clients and functions in details", "details of a class without __eq__: use a NamedTuple"),
    source="SupportsDetails.details: picklable",
)
def check_a_task_travels(lab: Lab) -> None:
    """Pickle tasks."""
    lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source = lab.source()
    enumerator = lab.enumerator(source)
    task = lab.task(lab.everything(enumerator), enumerator)
    _pickled(lab, "a task", task)
    _pickled(lab, "a snapshot", enumerator.snapshot())
    rows = lab.keys(source.reader(enumerator.snapshot()).read(pickle.loads(pickle.dumps(task))))  # noqa: S301 - its own
    lab.compare(rows)


@rule(
    "LIFE-7",
    "a source cannot be changed",
    level=Level.SHOULD,
    purpose="A source that changes during use differs from its earlier copies.",
    tested="The kit sets each field of a source. Then it uses the source.",
    passes="Setting a field raises an error. After its use, the source is equal to a new one.",
    look_at=("model_config of the subclass: keep frozen True", "fields that enumerator() or reader() sets"),
    source="Source: immutable",
)
def check_a_source_cannot_be_changed(lab: Lab) -> None:
    """Try to change a source."""
    lab.split(BEGIN_MS)
    source = lab.source()
    for name in type(source).model_fields:
        try:
            setattr(source, name, getattr(source, name))
        except Exception:  # noqa: BLE001, S112 - any will do
            continue
        raise lab.fail(f"the field {name!r} of a {type(source).__name__} can be set")
    enumerator = lab.enumerator(source)
    lab.read(source, lab.everything(enumerator), enumerator)
    lab.expect(source == lab.source(), f"a {type(source).__name__} that was used is not equal to a new one")


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
    with acts() as done:
        instance = make()
    grown = Resources.now().beyond(before)
    lab.expect(not done, f"making {what} {' and '.join(dict.fromkeys(done))}")
    lab.expect(grown is None, f"making {what} leaves {grown}")
    return instance


def _expect_no_growth(lab: Lab, what: str, cycle: Callable[[], None]) -> None:
    """Raise ConformanceError if repeating an action makes the process hold more resources."""
    for _ in range(_WARM_UP):
        cycle()
    before = Resources.now()
    for _ in range(_CYCLES):
        cycle()
    # Resources that end by themselves may take a moment.
    lab.until(
        lambda: True if Resources.now().beyond(before) is None else None,
        lambda: f"after {_CYCLES} more {what} there are {Resources.now().beyond(before)}",
    )


def _travelled(lab: Lab, what: str, source: Source) -> Source:
    try:
        copy: Source = pickle.loads(cloudpickle.dumps(source))  # type: ignore[no-untyped-call] # noqa: S301 - its own
    except Exception as error:
        raise lab.fail(f"{what} cannot be pickled: {type(error).__name__}: {error}") from error
    lab.expect(copy == source, f"{what} is not equal to its copy after pickling")
    return copy


def _pickled(lab: Lab, what: str, instance: object) -> None:
    try:
        copy = pickle.loads(pickle.dumps(instance))  # noqa: S301 - its own
    except Exception as error:
        raise lab.fail(f"{what} cannot be pickled: {type(error).__name__}: {error}") from error
    lab.expect(copy == instance, f"{what} is not equal to its copy after pickling: {copy!r} instead of {instance!r}")
