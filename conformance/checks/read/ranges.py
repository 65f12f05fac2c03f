"""READ: the rows of a range, and their order."""

from __future__ import annotations

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.explain import difference, listed, ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.rules import rule
from tidegate.errors import counted
from tidegate.readers.contract import ReadTask

_MANY = 10_500  # more than the pages of most systems
_PAGE = 2_100


@rule("READ-1")
def rows_come_once_and_in_order(lab: Lab) -> None:
    lab.two_splits(*after(*range(7)))
    source, enumerator = lab.opened()
    lab.compare(lab.keys(lab.read(source, lab.everything(enumerator), enumerator)))


@rule("READ-3", witness=("a row at each side of a range",))
def a_range_gives_no_row_of_its_neighbours(lab: Lab) -> None:
    lab.split(*after(*range(5)))
    source, enumerator = lab.opened()
    for split, rows in lab.placed(source, enumerator).items():
        for position, keys in rows.items():
            lab.expect(
                len(keys) < 2, f"each row was appended by itself, but position {position} of {split} has {listed(keys)}"
            )
        for start in rows:
            for end in [start, *(at + 1 for at in rows if at >= start)]:
                expected = [key for at in range(start, end) for key in rows.get(at, [])]
                delivered = lab.keys(lab.read(source, [SplitRange(split, start, end)], enumerator))
                what = f"the positions from {start} to {end} of {split}, read alone and as one range"
                lab.refuse(ordered_difference(what, expected, delivered))
                if any(rows.get(at) for at in range(start)) and rows.get(end):
                    lab.saw("a row at each side of a range")


@rule("READ-4", witness=("a gap",))
def a_task_reads_all_its_ranges(lab: Lab) -> None:
    lab.two_splits(*after(*range(7)))
    source, enumerator = lab.opened()
    pieces, left_out = [], []
    for whole in lab.everything(enumerator):
        third = (whole.end - whole.start) // 3
        first, last = whole.start + third, whole.end - third
        pieces += [SplitRange(whole.split_id, whole.start, first), SplitRange(whole.split_id, last, whole.end)]
        left_out.append(SplitRange(whole.split_id, first, last))
    expected = {number: lab.keys(lab.read(source, [piece], enumerator)) for number, piece in enumerate(pieces)}
    if lab.keys(lab.read(source, left_out, enumerator)):
        lab.saw("a gap")
    orders = {"the last one first": list(reversed(pieces)), "in order": pieces}
    none = lab.keys(source.reader(enumerator.snapshot()).read(ReadTask(())))
    lab.expect(not none, f"a task without ranges gives {counted(len(none), 'row')}")
    for name, order in orders.items():
        lab.tell(f"read {len(order)} ranges by one task, {name}")
        delivered = lab.keys(lab.read(source, order, enumerator))
        wrong = difference(expected, delivered, part="range", wanted="asked for")
        if wrong is not None:
            raise lab.fail(f"{len(order)} ranges in one task, {name}: {wrong}")


@rule("READ-5")
def many_rows_come_as_one(lab: Lab) -> None:
    split = lab.split()
    for first in range(0, _MANY, _PAGE):
        split.append(*(BEGIN_MS + n for n in range(first, first + _PAGE)))
    source, enumerator = lab.opened()
    lab.compare(lab.keys(lab.read(source, lab.everything(enumerator), enumerator)))


@rule("READ-7", needs=(Ability.HOLES,), witness=("a hole",))
def holes_cost_no_rows(lab: Lab) -> None:
    split = lab.split()
    split.leave_hole()
    holes = (0, 2, 1, 1)
    for number, behind in enumerate(holes):
        split.append(BEGIN_MS + number * SECOND_MS)
        for _ in range(behind):
            split.leave_hole()
    source, enumerator = lab.opened()
    # Positions before the first row may be left out of the extent.
    ranges = lab.everything(enumerator, len(split.rows) + sum(holes))
    lab.compare(lab.keys(lab.read(source, ranges, enumerator)))
    for whole in ranges:
        if whole.end - whole.start > len(split.rows):
            lab.saw("a hole")
        for position in range(whole.start, whole.end):
            keys = lab.keys(lab.read(source, [SplitRange(whole.split_id, position, position + 1)], enumerator))
            head = lab.peeking(enumerator).peek({whole.split_id: position}, lab.horizon)[whole.split_id]
            due = int(head is not None and head.position == position)
            lab.expect(
                len(keys) == due,
                f"position {position} of {whole.split_id} gives {listed(keys)}, though peek() finds "
                f"{'a' if due else 'no'} row there",
            )
        for cut in range(whole.start + 1, whole.end):
            halves = [SplitRange(whole.split_id, whole.start, cut), SplitRange(whole.split_id, cut, whole.end)]
            rows = [key for half in halves for key in lab.keys(lab.read(source, [half], enumerator))]
            wrong = difference(lab.written, rows)
            if wrong is not None:
                raise lab.fail(f"cut at {cut}: {wrong}")
