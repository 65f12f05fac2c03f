"""READ: rows that are deleted before they are read, and bad records, which do not come as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidegate.conformance.harness import Ability, name_of
from tidegate.conformance.lab.base import SkippedError
from tidegate.conformance.lab.explain import listed, ordered_difference
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.rules import rule
from tidegate.connector import Json, ReadTask, Source, SplitEnumerator, SplitId, SplitRange, SupportsBadRecords
from tidegate.errors import DataLossError

_LARGE = 500_000
_LARGE_ROWS = 12


@rule("READ-14", needs=(Ability.RETENTION,))
def without_fail_on_data_loss_all_else_is_read(lab: Lab) -> None:
    """Without failOnDataLoss the rest is read.

    A user who accepts the loss wants all remaining rows of a planned range, and no others.

    Look at: a reading that continues at the wrong row after the gap; a reading that waits for deleted rows.
    """
    split = lab.split(*after(*range(6)))
    source, enumerator = lab.opened(failOnDataLoss="false")
    task, state = lab.task(lab.everything(enumerator), enumerator), enumerator.snapshot()
    for trimmed in (3, 6):
        split.trim(trimmed)
        lab.compare(lab.keys(source.reader(state).read(task)))


@rule(
    "READ-27",
    needs=(Ability.RETENTION, Ability.ROW_POSITIONS),
    witness=("a range that lost its first row only", "a range that lost nothing", "a range that lost everything"),
)
def the_loss_of_one_row_is_noticed_in_every_range(lab: Lab) -> None:
    """The loss of one row is noticed, whichever range it is in.

    Retention deletes row by row, so often only the first rows of one range are gone. The reader raises DataLossError
    exactly if a row of its task is gone, and otherwise gives all rows.

    Look at: an off-by-one error between the start of a range and the first remaining row; a check of only the first
    range of a task; a check that needs a remaining row.
    """
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
    """Rows that are deleted while they are read are not passed over.

    A task may read for minutes. If rows are deleted after its first batch, it gives them all the same, or raises
    DataLossError.

    Look at: a range that is checked once and then fetched in pages; an empty page that is taken for the end.
    """
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


@rule("READ-30", witness=("bad records",))
def bad_records_are_no_rows_and_are_counted_in_their_range(lab: Lab) -> None:
    """Bad records are left out of the rows, and counted in their range.

    Only the number in the progress says that records were set aside, and tasks are repeated. Every reading counts every
    bad record once, in its range, and gives all rows; a reader of without_writing() gives the same rows.

    Look at: a count of the whole task that is given to its first range; a count of the worker process; a reader of
    without_writing() that delivers bad records, or ends at them.
    """
    source = lab.source(**lab.harness.bad_records)
    if not source.sets_bad_records_aside:
        raise SkippedError(f"{name_of(lab.harness)} names no options in bad_records, so none are set aside")
    written = 0
    for _ in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        split = lab.split(*after(0, 1))
        split.append_bad_record()
        split.append_each(*after(2))
        split.append_bad_record()
        written += 2
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    rows, counts = _read(lab, source, ranges, enumerator)
    lab.compare(rows, in_order=lab.can(Ability.ROW_POSITIONS))
    total = sum(counts.values())
    lab.expect(total == written, f"{written} bad records were written, and bad_records counts {total}")
    lab.saw("bad records")
    again = _read(lab, source, ranges, enumerator)[1]
    lab.expect(counts == again, f"bad_records counts {counts}, and {again} when the ranges are read again")
    for whole in ranges:
        alone = (SplitRange(whole.split_id, at, at + 1) for at in range(whole.start, whole.end))
        number = sum(sum(_read(lab, source, [single], enumerator)[1].values()) for single in alone)
        held = counts.get(whole, 0)
        lab.expect(
            held == number,
            f"{whole} has {number} bad records when its positions are read alone, but {held} in a task of all ranges",
        )
    quiet, _ = _read(lab, source, ranges, enumerator, writes=False)
    lab.refuse(ordered_difference("all ranges read with writing, and without", rows, quiet))


def _read(
    lab: Lab, source: Source, ranges: Iterable[SplitRange], enumerator: SplitEnumerator, *, writes: bool = True
) -> tuple[list[str], Mapping[SplitRange, int]]:
    reader = source.reader(enumerator.snapshot())
    if not isinstance(reader, SupportsBadRecords):
        raise lab.fail(f"the source sets bad records aside, but {type(reader).__name__} is not a SupportsBadRecords")
    task = lab.task(ranges, enumerator)
    batches = [*(reader if writes else reader.without_writing()).read(task)]
    return lab.keys(batches), {wanted: number for wanted, number in reader.bad_records.items() if number}
