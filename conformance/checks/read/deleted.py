"""READ: rows that are deleted before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegate.alignment.splits import SplitId, SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.explain import listed
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import Json
from tidegate.errors import DataLossError
from tidegate.readers.contract import ReadTask
from tidegate.sources.source import Source

_TRIMMED = 3
_LARGE = 500_000
_LARGE_ROWS = 12


@rule("READ-14", needs=(Ability.RETENTION,))
def without_fail_on_data_loss_the_rest_is_read(lab: Lab) -> None:
    source = lab.source(failOnDataLoss="false")
    task, state = _task_of_trimmed_rows(lab, source)
    lab.compare(lab.keys(source.reader(state).read(task)))
    lab.splits[0].trim(len(lab.rows))
    lab.compare(lab.keys(source.reader(state).read(task)))


def _task_of_trimmed_rows(lab: Lab, source: Source) -> tuple[ReadTask, Json | None]:
    split = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(_TRIMMED + 3)))
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    planned = lab.task(ranges, enumerator), enumerator.snapshot()
    split.trim(_TRIMMED)
    return planned


@rule(
    "READ-27",
    needs=(Ability.RETENTION, Ability.ROW_POSITIONS),
    witness=("a range that lost its first row only", "a range that lost nothing", "a range that lost everything"),
)
def the_loss_of_one_row_is_noticed_in_every_range(lab: Lab) -> None:
    lab.two_splits(*after(*range(5)))
    source, enumerator = lab.opened()
    placed = lab.placed(source, enumerator)
    for trimmed in (1, 3, 5):
        tasks = [lab.task(ranges, enumerator) for ranges in _around(placed, lab.splits[-1].rows[trimmed - 1].key)]
        lab.splits[-1].trim(trimmed)
        for task in tasks:
            wanted = [key for part in task.ranges for key in _keys_of(placed, part)]
            gone = [key for key in wanted if not any(key in split.keys for split in lab.splits)]
            _expect_loss_or_all(lab, source, enumerator.snapshot(), task, wanted, gone)


@rule("READ-28", needs=(Ability.RETENTION,))
def rows_that_are_deleted_while_they_are_read_are_data_loss(lab: Lab) -> None:
    split = lab.split()
    split.append(*after(*range(_LARGE_ROWS)), values=[f"{number:02}" * (_LARGE // 2) for number in range(_LARGE_ROWS)])
    source, enumerator = lab.opened()
    task = lab.task(lab.everything(enumerator), enumerator)
    wanted = split.keys
    reading = iter(source.reader(enumerator.snapshot()).read(task))
    keys = lab.keys([next(reading)])
    split.trim(_LARGE_ROWS)
    try:
        keys += lab.keys(reading)
    except DataLossError:
        return
    lab.expect(
        keys == wanted,
        f"{len(wanted) - len(keys)} rows are deleted after the first batch, and left out without an error",
    )


def _around(placed: Mapping[SplitId, Mapping[int, Sequence[str]]], key: str) -> Iterator[list[SplitRange]]:
    """Yield the ranges of tasks: those around a row, and whole other splits."""
    (split,) = (name for name, rows in placed.items() if any(key in keys for keys in rows.values()))
    others = [SplitRange(name, min(rows), max(rows) + 1) for name, rows in placed.items() if name != split]
    (at,) = (position for position, keys in placed[split].items() if key in keys)
    begin, end = min(placed[split]), max(placed[split]) + 1
    lost = SplitRange(split, at, end)
    yield from ([lost], [*others, lost], [lost, *others], others)
    yield [SplitRange(split, at, at + 1)]
    yield [SplitRange(split, begin, at + 1)]
    yield [SplitRange(split, at + 1, end)]


def _keys_of(placed: Mapping[SplitId, Mapping[int, Sequence[str]]], wanted: SplitRange) -> list[str]:
    positions = placed[wanted.split_id]
    return [key for at in range(wanted.start, wanted.end) for key in positions.get(at, ())]


def _expect_loss_or_all(
    lab: Lab, source: Source, state: Json | None, task: ReadTask, wanted: Sequence[str], gone: Sequence[str]
) -> None:
    asked = listed([f"{part.split_id} from {part.start} to {part.end}" for part in task.ranges])
    if not gone:
        lab.saw("a range that lost nothing")
    elif len(gone) == len(wanted):
        lab.saw("a range that lost everything")
    elif len(gone) == 1:
        lab.saw("a range that lost its first row only")
    try:
        keys = lab.keys(source.reader(state).read(task))
    except DataLossError:
        lab.expect(gone, f"no row of {asked} is gone, but the reader raises DataLossError")
        return
    lab.expect(not gone, f"{listed(gone)} of {asked} is gone, but the reader gives {len(keys)} rows and no error")
    lab.expect(sorted(keys) == sorted(wanted), f"{asked} gives {listed(keys)} instead of {listed(wanted)}")
