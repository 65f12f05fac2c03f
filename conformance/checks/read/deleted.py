"""READ: rows that are deleted before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from tidegate.alignment.splits import SplitId, SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.explain import listed
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.enumerators.contract import Json
from tidegate.errors import DataLossError
from tidegate.readers.contract import ReadTask
from tidegate.sources.source import Source

__all__ = [
    "check_deleted_rows_are_data_loss",
    "check_rows_that_are_deleted_while_they_are_read_are_data_loss",
    "check_the_loss_of_one_row_is_noticed_in_every_range",
    "check_without_fail_on_data_loss_the_rest_is_read",
]

_RAISES = "SplitReader.read: raises DataLossError"
_TRIMMED = 3
_LARGE = 500_000
_LARGE_ROWS = 12


@rule(
    "READ-13",
    "deleted rows are data loss",
    purpose="A reader must not silently skip planned rows that are gone.",
    tested=f"Ranges are planned. The first {_TRIMMED} rows are deleted, and the ranges are read twice.",
    passes="The reader raises DataLossError, every time.",
    look_at=("a reader that begins at the first remaining row", "an error of the client that is not mapped"),
    needs=(Ability.RETENTION,),
    source=_RAISES,
)
def check_deleted_rows_are_data_loss(lab: Lab) -> None:
    """Delete rows between plan and reading."""
    source = lab.source()
    task, state = _task_of_trimmed_rows(lab, source)
    for _ in range(2):
        lab.tell("read what was planned")
        with suppress(DataLossError):
            read = lab.keys(source.reader(state).read(task))
            raise lab.fail(f"{_TRIMMED} rows of the range are gone, but the reader gives {len(read)} rows and no error")


@rule(
    "READ-14",
    "without failOnDataLoss the rest is read",
    purpose="A user who accepts the loss wants all remaining rows, and no others.",
    tested="As in READ-13, with failOnDataLoss=false. Then all rows are deleted, and the ranges are read again.",
    passes="The first reading gives the remaining rows once and in order. The second gives none.",
    look_at=("a reading that continues at the wrong row after the gap", "a reading that waits for deleted rows"),
    needs=(Ability.RETENTION,),
    source="Source.fail_on_data_loss",
)
def check_without_fail_on_data_loss_the_rest_is_read(lab: Lab) -> None:
    """Delete rows, and continue."""
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
    "the loss of one row is noticed, whichever range it is in",
    purpose="Retention deletes row by row. Often only the first rows of one range are gone.",
    tested="One of two splits loses its first row, then its first three, then all five. Ranges before, at and after "
    "the last deleted row are read. They are read alone, and in one task with the other split.",
    passes="The reader raises DataLossError exactly if a row of the task is gone. Otherwise it gives all rows.",
    look_at=(
        "an off-by-one error between the start of a range and the first remaining row",
        "a check of only the first range of a task, or of the first rows of all splits",
        "a check that needs a remaining row, although a range or a split may have none",
    ),
    needs=(Ability.RETENTION, Ability.ROW_POSITIONS),
    witness=("a range that lost its first row only", "a range that lost nothing", "a range that lost everything"),
    source=_RAISES,
)
def check_the_loss_of_one_row_is_noticed_in_every_range(lab: Lab) -> None:
    """Delete more and more rows, and read around the last of them."""
    for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(*after(*(number + n for n in range(5))))
    source = lab.source()
    enumerator = lab.enumerator(source)
    placed = lab.placed(source, enumerator)
    for trimmed in (1, 3, 5):
        tasks = [lab.task(ranges, enumerator) for ranges in _around(placed, lab.splits[-1].rows[trimmed - 1].key)]
        lab.splits[-1].trim(trimmed)
        for task in tasks:
            wanted = [key for part in task.ranges for key in _keys_of(placed, part)]
            gone = [key for key in wanted if not any(key in split.keys for split in lab.splits)]
            _expect_loss_or_all(lab, source, enumerator.snapshot(), task, wanted, gone)


@rule(
    "READ-28",
    "rows that are deleted while they are read are not passed over",
    purpose="A task may read for minutes. Rows that retention deletes before the task reads them are lost silently.",
    tested=f"A range of {_LARGE_ROWS} values of {_LARGE // 1_000} KB is read. After its first batch, all rows are "
    "deleted.",
    passes="The reader gives all rows, or raises DataLossError.",
    look_at=("a range that is checked once and then fetched in pages", "an empty page that is taken for the end"),
    needs=(Ability.RETENTION,),
    source=_RAISES,
)
def check_rows_that_are_deleted_while_they_are_read_are_data_loss(lab: Lab) -> None:
    """Delete everything after the first batch."""
    split = lab.split()
    split.append(*after(*range(_LARGE_ROWS)), values=[f"{number:02}" * (_LARGE // 2) for number in range(_LARGE_ROWS)])
    source = lab.source()
    enumerator = lab.enumerator(source)
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
