"""READ: bad records, which are written elsewhere and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.harness import name_of
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.readers.contract import SupportsBadRecords
from tidegate.sources.source import Source


@rule("READ-30", witness=("bad records",))
def bad_records_are_no_rows_and_are_counted_in_their_range(lab: Lab) -> None:
    source = lab.source(**lab.harness.bad_records)
    if not source.sets_bad_records_aside:
        raise NotApplicableError(f"{name_of(lab.harness)} names no options in bad_records, so none are set aside")
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
        raise lab.fail(f"the source sets bad records aside, but {type(reader).__name__} is no SupportsBadRecords")
    task = lab.task(ranges, enumerator)
    batches = [*(reader if writes else reader.without_writing()).read(task)]
    return lab.keys(batches), {wanted: number for wanted, number in reader.bad_records.items() if number}
