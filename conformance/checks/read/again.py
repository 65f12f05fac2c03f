"""READ: the same range gives the same rows, whenever and wherever it is read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.explain import ordered_difference, row_difference
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.readers.contract import ReadTask
from tidegate.sources.source import Source


@rule("READ-9")
def a_range_gives_the_same_rows_every_time(lab: Lab) -> None:
    split = lab.split(*after(*range(5)))
    source, enumerator = lab.opened()
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


@rule("READ-11")
def another_process_reads_the_same_rows(lab: Lab) -> None:
    lab.split(*after(*range(5)))
    source, enumerator = lab.opened()
    ranges = lab.everything(enumerator)
    first = _whole(lab, source, ranges, enumerator)
    lab.tell("read it in another process")
    with closing(lab.elsewhere()) as process:
        read = process.call(read_all, source, enumerator.snapshot(), lab.task(ranges, enumerator))
    _expect_same(lab, "here and in another process", first, pa.Table.from_batches(read, source.arrow_schema))


def read_all(source: Source, state: Json | None, task: ReadTask) -> list[pa.RecordBatch]:
    """Return all that a task gives."""
    return list(source.reader(state).read(task))


def _whole(lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator) -> pa.Table:
    return pa.Table.from_batches(lab.read(source, ranges, enumerator), source.arrow_schema)


def _expect_same(lab: Lab, what: str, first: pa.Table, second: pa.Table) -> None:
    keys, again = lab.keys(first.to_batches()), lab.keys(second.to_batches())
    lab.refuse(ordered_difference(what, keys, again) or row_difference(what, keys, first, second))
