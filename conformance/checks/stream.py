"""STREAM: streaming queries of any data source."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from typing_extensions import Self

from tidegate.conformance.checks.source import add_some, empty_frame, source_rule
from tidegate.conformance.data_source.harness import Side, overrides
from tidegate.conformance.data_source.lab import SourceLab
from tidegate.conformance.data_source.planners import StreamPlanner, tuples
from tidegate.conformance.lab.base import ConformanceError, SkippedError, slowness
from tidegate.conformance.lab.explain import listed
from tidegate.conformance.lab.processes import Resources
from tidegate.conformance.rules import Tier

_ROWS = 4
_MORE_BATCHES = 8
_WARM_UP = 2
_CYCLES = 3
_POLL_S = 0.01


@source_rule("STREAM-1", tier=Tier.SPARK, needs=(Side.STREAM, Side.ROWS))
def a_stream_reads_every_row_once_run_after_run(lab: SourceLab) -> None:
    """A stream reads every row once, run after run.

    A run with Trigger.AvailableNow delivers the rows that were added since the one before, and one without new rows
    delivers none.

    Look at: an end that counts as the next start, or is left out of both; a position that the reader keeps in a field,
    which begins anew with each run; rows of a SimpleDataSourceStreamReader that are a generator, which Spark cannot
    copy, or a list where there are none, from which it cannot take the next.
    """
    stream = lab.stream()
    for number in (1, 2):
        lab.add(_ROWS)
        stream.run()
        lab.compare(stream.delivered, f"all up to run {number}")
    again = [row for batch in stream.run() for row in batch.keys]
    lab.expect(not again, f"a run without new rows delivers {listed(again)}")


@source_rule("STREAM-2", tier=Tier.SPARK, needs=(Side.STREAM,), witness=("a batch with rows",))
def the_same_range_gives_the_same_rows(lab: SourceLab) -> None:
    """The same range gives the same rows.

    Spark reads a micro-batch again when a task fails, and for each action in foreachBatch. Two actions on one batch
    give the same rows, though rows were added in between.

    Look at: a reader that ignores the end of its range; rows that are taken away when they are read, as from a queue;
    random values and the present time in rows.
    """
    add_some(lab)
    stream = lab.stream(twice=True)
    stream.between = lambda: None if stream.batches else add_some(lab)
    for batch in stream.run():
        lab.same(f"two actions on batch {batch.number}", batch.keys, batch.again)
        if batch.keys:
            lab.saw("a batch with rows")


@source_rule("STREAM-3", tier=Tier.SPARK, needs=(Side.STREAM,))
def offsets_are_json_and_never_go_back(lab: SourceLab) -> None:
    """Offsets are JSON, and never go back.

    Spark keeps them as JSON, and compares their texts. Each offset is a dictionary, equal ones have equal texts, none
    comes again after another, and JSON gives back what the source gave. Keys that are numbers come back as texts.

    Look at: tuples, which come back as lists, and NaN; a dictionary that is made of a set, and has another order each
    time; an offset that is counted in memory, which begins anew with each run.
    """
    stream = lab.stream()
    for _ in range(3):
        add_some(lab)
        stream.run()
    texts = stream.offsets
    lab.tell(f"offsets: {listed(texts)}")
    steps = [text for at, text in enumerate(texts) if at == 0 or text != texts[at - 1]]
    lab.expect(len({*steps}) == len(steps), f"an offset comes again after another: {', '.join(texts)}")
    offsets = [json.loads(text) for text in steps]
    lab.expect(all(isinstance(offset, dict) for offset in offsets), f"an offset isn't a dictionary: {', '.join(texts)}")
    same = [text for at, text in enumerate(steps) if offsets.index(offsets[at]) != at]
    lab.expect(not same, f"equal offsets have several texts, and count as new ones: {', '.join(texts)}")
    if lab.can(Side.CLASS):
        lab.by_planners(_expect_json, sides=[Side.STREAM])


def _expect_json(planner: StreamPlanner) -> None:
    planner.latest(planner.initial())
    for given in planner.given:
        if _named(given) != json.loads(json.dumps(given)):
            raise ConformanceError(f"JSON does not give back the offset {given!r}")


def _named(value: Any) -> Any:
    """Return an offset with texts for keys, as JSON has them."""
    return {str(key): _named(inner) for key, inner in value.items()} if isinstance(value, dict) else value


@source_rule("STREAM-4", tier=Tier.SPARK, needs=(Side.STREAM,), witness=("a batch that was read again",))
def a_restart_between_plan_and_commit_loses_nothing(lab: SourceLab) -> None:
    """A restart between plan and commit loses and doubles nothing.

    Spark writes the offset of a batch before it reads it, and its commit afterwards. A query that died in between
    reads the range again: with the same rows, even if more were added, and the next batches continue there.

    Look at: readBetweenOffsets(), which must heed the end, and is called in no other case; a cache of what read()
    fetched; a start that is taken from memory and not from the argument.
    """
    add_some(lab)
    stream = lab.stream()
    before = {batch.number: batch.keys for batch in stream.run()}
    lab.expect(before, "a first run with rows makes no batch")
    number = stream.forget_last_commit()
    add_some(lab)
    for batch in stream.run():
        if batch.number == number:
            lab.saw("a batch that was read again")
            lab.same(f"batch {number}, before and after a restart", before[number], batch.keys)
    if lab.can(Side.ROWS):
        stream.run()  # for some sources, Spark ends the run with the batch that it reads again
        lab.compare(stream.delivered)


@source_rule("STREAM-6", tier=Tier.SPARK, needs=(Side.STREAM, Side.ROWS))
def a_stream_may_begin_with_nothing(lab: SourceLab) -> None:
    """A stream may begin with nothing.

    A query that starts before the first row ends with Trigger.AvailableNow, delivers nothing, and continues with the
    first row that comes. Where the schema is taken from the data, the rule is skipped.

    Look at: initialOffset() and latestOffset() that look at the first row, which is not there; an offset of None, or
    one for the last row that counts as read.
    """
    empty_frame(lab, stream=True)
    stream = lab.stream()
    early = [row for batch in stream.run() for row in batch.keys]
    lab.expect(not early, f"nothing was added, and {listed(early)} is delivered")
    lab.add(_ROWS)
    stream.run()
    lab.compare(stream.delivered)


@source_rule("STREAM-7", needs=(Side.STREAM, Side.ROWS, Side.CLASS))
def a_batch_keeps_its_limit(lab: SourceLab) -> None:
    """A batch keeps its limit.

    A source whose latestOffset() takes a limit heeds it: ReadMaxRows gives at most so many rows, every row in the end,
    and ReadAllAvailable gives all, whatever the options say.

    Look at: a limit that is taken from the options and not from the argument; a limit for each partition instead of
    all; a position that stands still where the limit is smaller than one step.
    """
    lab.add(_ROWS * 2)
    lab.by_planners(_expect_limit, lab.added, sides=[Side.STREAM], options=lab.harness.limited)


def _expect_limit(planner: StreamPlanner, added: int) -> None:
    if not planner.takes_limits:
        raise SkippedError("its latestOffset() takes no limit")
    start, read = planner.initial(), 0
    if (whole := _count(planner, start, planner.latest(start))) != added:
        raise ConformanceError(f"ReadAllAvailable gives {whole} of {added} rows")
    limit = planner.reader.getDefaultReadLimit()
    if not isinstance(limit, ReadMaxRows):
        return
    while (end := planner.latest(start, limit)) != start:
        if (rows := _count(planner, start, end)) > limit.max_rows:
            raise ConformanceError(f"a batch has {rows} rows, though the limit is {limit.max_rows}")
        read, start = read + rows, end
    if read != added:
        raise ConformanceError(f"with {limit} there are {read} of {added} rows in the end")


def _count(planner: StreamPlanner, start: dict[str, Any], end: dict[str, Any]) -> int:
    return sum(1 for task in planner.tasks(start, end) for _ in tuples(task.items(), planner.schema))


@source_rule("STREAM-8", tier=Tier.SPARK, needs=(Side.STREAM, Side.ROWS))
def available_now_ends_though_rows_are_added(lab: SourceLab) -> None:
    """Trigger.AvailableNow ends, though rows are added meanwhile.

    A source with prepareForTriggerAvailableNow() reads what was there at that moment, and no more; for others Spark
    ends the run. The next run reads the rest.

    Look at: a target that prepareForTriggerAvailableNow() does not keep, or that the next call of latestOffset() looks
    up again; an end that is never equal to the start, such as the present time.
    """
    lab.add(_ROWS)
    stream = lab.stream(lab.harness.limited)
    stream.between = lambda: lab.add(1) if len(stream.batches) < _MORE_BATCHES else None
    batches = len(stream.run())
    lab.expect(batches < _MORE_BATCHES, f"the run makes {batches} batches, one for each row that is added meanwhile")
    rows = len(stream.delivered)
    if rows > _ROWS and lab.can(Side.CLASS) and any(lab.by_planners(_has_target, sides=[Side.STREAM])):
        raise lab.fail(f"the run delivers {rows} rows, though {_ROWS} were there when it began")
    stream.between = lambda: None
    stream.run()
    lab.compare(stream.delivered)


def _has_target(planner: StreamPlanner) -> bool:
    return isinstance(planner.reader, SupportsTriggerAvailableNow)


@source_rule("STREAM-9", needs=(Side.STREAM, Side.CLASS))
def stop_leaves_nothing_open(lab: SourceLab) -> None:
    """stop() leaves nothing open.

    A cluster lives for months and starts many queries. A reader that has planned and read a batch, and is stopped,
    leaves no thread, process, socket or file.

    Look at: threads that look for changes, and are not joined; clients that latestOffset() opens and stop() forgets; a
    with or finally that read() lacks.
    """
    add_some(lab)
    lab.by_planners(_expect_quiet, lab.patience_s, sides=[Side.STREAM])


def _expect_quiet(planner: StreamPlanner, patience_s: float) -> None:
    if planner.is_simple:
        raise SkippedError("a SimpleDataSourceStreamReader has no stop()")

    def cycle() -> None:
        another = planner.again()
        for task in another.all_tasks():
            list(task.items())
        another.stop()

    for _ in range(_WARM_UP):
        cycle()
    before = Resources.now()
    for _ in range(_CYCLES):
        cycle()
    until = time.monotonic() + patience_s * slowness()  # what ends by itself may take a moment
    while grown := Resources.now().beyond(before):
        if time.monotonic() > until:
            raise ConformanceError(f"after {_CYCLES} more readers there are {grown}")
        time.sleep(_POLL_S)  # nothing reports when a thread, socket or process of the connector ends


@source_rule("STREAM-10", needs=(Side.STREAM, Side.CLASS))
def an_empty_range_has_no_partitions(lab: SourceLab) -> None:
    """An empty range has no partitions.

    Spark may ask for the partitions between an offset and itself, which are none (DataSourceStreamReader.partitions).

    Look at: a range for each split, without a look at whether it is empty; a partition that is made of the difference.
    """
    add_some(lab)
    lab.by_planners(_expect_no_partitions, sides=[Side.STREAM])


def _expect_no_partitions(planner: StreamPlanner) -> None:
    if planner.is_simple:
        raise SkippedError("a SimpleDataSourceStreamReader plans no partitions")
    start = planner.initial()
    for offset in (start, planner.latest(start)):
        if partitions := planner.reader.partitions(offset, offset):
            raise ConformanceError(f"between {offset} and itself there are {listed(partitions)}")


@source_rule("STREAM-5", tier=Tier.FAULTS, needs=(Side.STREAM, Side.CLASS), witness=("a worker that was killed",))
def a_killed_worker_loses_nothing(lab: SourceLab) -> None:
    """A killed worker loses and doubles nothing.

    The first process that reads a row is killed (SIGKILL). Spark starts the task or the query again, and every row is
    delivered once.

    Look at: rows that are acknowledged or deleted when they are read, not when commit() says so; a lock or a temporary
    file that a dead process leaves.
    """
    add_some(lab)
    with tempfile.TemporaryDirectory(prefix="tidegate-conformance-") as folder:
        marker = Path(folder) / "killed"
        stream = lab.stream(source=_dying(lab.source, str(marker)))
        failure = stream.failure()
        lab.tell(f"the first run ends {'well' if failure is None else 'with an error of Spark'}")
        if marker.exists():
            lab.saw("a worker that was killed")
        stream.run()
    if lab.can(Side.ROWS):
        lab.compare(stream.delivered)


class _Killer:
    """The rows of a reader.  The first process that takes one leaves a marker, and is killed."""

    def __init__(self, rows: Iterable[Any], marker: str) -> None:
        self._rows, self._marker = iter(rows), marker

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        row = next(self._rows)
        with suppress(FileExistsError):
            os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        return row


def _dying(source: type[DataSource], marker: str) -> type[DataSource]:
    """Return a source whose rows come by a _Killer."""

    def made(name: str) -> Callable[[DataSource, StructType], Any]:
        def make(self: DataSource, schema: StructType) -> Any:
            reader = getattr(source, name)(self, schema=schema)
            own = type(reader)

            def read(self: Any, asked: Any) -> Any:
                given = own.read(self, asked)
                simple = isinstance(given, tuple)  # a simple reader gives its end as well
                return (_Killer(given[0], marker), given[1]) if simple else _Killer(given, marker)

            reader.__class__ = type(own.__name__, (own,), {"read": read})
            return reader

        return make

    readers = {name: made(name) for name in ("streamReader", "simpleStreamReader") if overrides(source, name)}
    return type(source.__name__, (source,), {**readers, "name": classmethod(lambda _: source.name())})
