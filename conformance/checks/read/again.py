"""READ: the same range gives the same rows, whenever and wherever it is read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from tidegate.alignment.splits import Positions, SplitId, SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.elsewhere import elsewhere
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import Json, SplitEnumerator, SupportsCommit
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
def another_process_finds_the_same_splits_and_reads_the_same_rows(lab: Lab) -> None:
    lab.two_splits(*after(*range(5)))
    source, enumerator = lab.opened()
    ranges = lab.everything(enumerator)
    first = _whole(lab, source, ranges, enumerator)
    state, splits = enumerator.snapshot(), sorted(enumerator.discover())
    begins = {part.split_id: part.start for part in ranges}
    lab.tell("read it in another process, and discover there")
    read, found = elsewhere(read_and_find, source, state, lab.task(ranges, enumerator), begins)
    _expect_same(lab, "here and in another process", first, pa.Table.from_batches(read, source.arrow_schema))
    lab.refuse(ordered_difference("splits that are found here and in another process", splits, found))


def read_and_find(
    source: Source, state: Json | None, task: ReadTask, begins: Positions
) -> tuple[list[pa.RecordBatch], list[SplitId]]:
    """Return all that a task gives, and the splits that a new run finds from this state and these positions."""
    read = list(source.reader(state).read(task))
    with closing(source.as_stream().enumerator(state)) as enumerator:
        if isinstance(enumerator, SupportsCommit):
            enumerator.commit(begins)
        return read, sorted(enumerator.discover())


def _whole(lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator) -> pa.Table:
    return pa.Table.from_batches(lab.read(source, ranges, enumerator), source.arrow_schema)


def _expect_same(lab: Lab, what: str, first: pa.Table, second: pa.Table) -> None:
    lab.refuse(ordered_difference(what, *([str(row) for row in table.to_pylist()] for table in (first, second))))
