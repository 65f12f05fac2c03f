"""READ: the same range gives the same rows, whenever and wherever it is read."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa
from pyspark import cloudpickle

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.explain import ordered_difference, row_difference
from tidegate.conformance.lab.lab import BEGIN_MS, Lab, after
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.readers.contract import ReadTask
from tidegate.sources.source import Source

__all__ = [
    "check_a_range_gives_the_same_rows_after_a_restart",
    "check_a_range_gives_the_same_rows_every_time",
    "check_an_abandoned_reading_harms_no_later_one",
    "check_another_process_reads_the_same_rows",
]

_REPEATED = "SplitReader.read: the same range must yield the same rows every time"


@rule(
    "READ-9",
    "a range gives the same rows every time, also when more have come",
    purpose="Spark reads a batch again for every action, after failures and under speculation. If the rows differ, "
    "some are doubled or lost.",
    tested="Ranges are read three times. Then rows are appended, a split appears where possible, and the same ranges "
    "are read again.",
    passes="Every reading gives the same rows with the same values in the same order.",
    look_at=(
        "a cursor or a group offset on the other side that moves with every read",
        "an end that the reader ignores when there are more rows",
        "a request without a total order, or one that counts from the end",
        "a value such as the time of reading",
    ),
    source=_REPEATED,
)
def check_a_range_gives_the_same_rows_every_time(lab: Lab) -> None:
    """Read the same ranges again and again."""
    split = lab.split(*after(*range(5)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    first = _whole(lab, source, ranges, enumerator)
    lab.compare(lab.keys(first.to_batches()))
    for reading in (2, 3):
        lab.tell("read it again")
        _expect_same(lab, f"reading 1 and {reading}", first, _whole(lab, source, ranges, enumerator))
    split.append_each(*after(5, 6))
    if lab.can(Ability.NEW_SPLITS):
        lab.split(*after(0, 1))
    lab.discovered(enumerator)
    lab.tell("read the first ranges again")
    _expect_same(lab, "before and after more rows came", first, _whole(lab, source, ranges, enumerator))


@rule(
    "READ-10",
    "a range gives the same rows after a restart",
    purpose="After a crash, the next run reads the last logged batch again. It knows nothing but the offsets of that "
    "batch.",
    tested="Ranges are read. The enumerator is restarted from its snapshot, the source is pickled, and rows are "
    "appended. Then the ranges are read again.",
    passes="All readings give the same rows with the same values.",
    look_at=(
        "data that a reader takes from the enumerator of its own process",
        "details() for a batch of an earlier run",
    ),
    source=f"{_REPEATED}, also when the process that planned it is gone",
)
def check_a_range_gives_the_same_rows_after_a_restart(lab: Lab) -> None:
    """Read, restart and read again."""
    split = lab.split(*after(*range(5)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    starts = enumerator.starts([part.split_id for part in ranges], first=True)
    first = _whole(lab, source, ranges, enumerator)
    lab.tell("pickle the source")
    again: Source = pickle.loads(cloudpickle.dumps(source))  # type: ignore[no-untyped-call]  # noqa: S301 - just written
    restarted = lab.restarted(again, enumerator, starts)
    split.append_each(*after(5, 6))
    _expect_same(lab, "before and after a restart", first, _whole(lab, again, ranges, restarted))
    lab.discovered(restarted)
    _expect_same(lab, "before and after more rows were found", first, _whole(lab, again, ranges, restarted))


@rule(
    "READ-11",
    "another process reads the same rows",
    purpose="Executors are other processes, on other machines. They have only pickled objects.",
    tested="A task is read here. Then a new Python process in another time zone reads it with the pickled source.",
    passes="Both readings give the same rows with the same values.",
    look_at=(
        "a cache or a registry in a module",
        "an address that only this process knows",
        "hash()",
        "a time in the time zone of the machine",
    ),
    source=f"{_REPEATED}; Source.reader: on an executor",
)
def check_another_process_reads_the_same_rows(lab: Lab) -> None:
    """Read here, and in another process."""
    lab.split(*after(*range(5)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    first = _whole(lab, source, ranges, enumerator)
    lab.tell("read it in another process")
    with closing(lab.elsewhere()) as process:
        read = process.call(read_all, source, enumerator.snapshot(), lab.task(ranges, enumerator))
    _expect_same(lab, "here and in another process", first, pa.Table.from_batches(read, source.arrow_schema))


def read_all(source: Source, state: Json | None, task: ReadTask) -> list[pa.RecordBatch]:
    """Return all that a task gives."""
    return list(source.reader(state).read(task))


@rule(
    "READ-12",
    "a reading that is abandoned harms no later one",
    purpose="A limit or a failure ends a task early. The worker process then runs the next task.",
    tested="A reading is abandoned after its first batch, once with close() and once without. After each, new "
    "readers read everything.",
    passes="Every row comes once and in order.",
    look_at=("a connection that returns to a pool with an unread answer", "an iterator that readers share"),
    source="SplitReader: one instance is made per Spark task",
)
def check_an_abandoned_reading_harms_no_later_one(lab: Lab) -> None:
    """Leave readings in the middle."""
    split = lab.split()
    for first in range(0, 1_200, 400):
        split.append(*(BEGIN_MS + n for n in range(first, first + 400)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    left = []
    for ended in (True, False):
        lab.tell("read one batch, and leave the rest" + (" for good" if ended else ""))
        reading = iter(source.reader(enumerator.snapshot()).read(lab.task(ranges, enumerator)))
        lab.expect(next(reading, None) is not None, "the reader yields no batch at all")
        left.append(reading)
        if ended:
            # Generators have close(), as Spark calls it; another iterator is only dropped.
            getattr(reading, "close", lambda: None)()
        for _ in range(2):
            lab.tell("read it all")
            lab.compare(lab.keys(lab.read(source, ranges, enumerator)))


def _whole(lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator) -> pa.Table:
    return pa.Table.from_batches(lab.read(source, ranges, enumerator), source.arrow_schema)


def _expect_same(lab: Lab, what: str, first: pa.Table, second: pa.Table) -> None:
    keys, again = lab.keys(first.to_batches()), lab.keys(second.to_batches())
    wrong = ordered_difference(what, keys, again) or row_difference(what, keys, first, second)
    if wrong is not None:
        raise lab.fail(wrong)
