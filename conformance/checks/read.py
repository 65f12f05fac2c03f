"""READ: what a range gives."""

from __future__ import annotations

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.explain import ordered_difference
from tidegate.conformance.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.rules import rule

__all__ = ["check_every_cut_of_a_range_gives_the_same_rows", "check_rows_come_once_and_in_order"]

_CONTRACT = "SplitReader.read"


@rule(
    "READ-1",
    "rows come once and in order",
    purpose="A row that is missing or comes twice is wrong data that nobody notices.",
    tested="Two splits of several rows are read from begin to end by one task.",
    passes="Every row comes once, and those of a split in the order of their positions.",
    look_at=("the end of a range, which is exclusive", "the order of the query that fetches rows", "paging"),
    source=_CONTRACT,
)
def check_rows_come_once_and_in_order(lab: Lab) -> None:
    """Read everything that two splits hold."""
    for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(*(BEGIN_MS + n * SECOND_MS + number for n in range(7)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    extents = enumerator.extents(lab.discovered(enumerator))
    ranges = [SplitRange(split, extent.begin, extent.end) for split, extent in sorted(extents.items())]
    lab.compare(lab.keys(lab.read(source, ranges, enumerator)))


@rule(
    "READ-2",
    "every cut of a range gives the same rows",
    purpose="Batches are cut anywhere, by budget and by time: a row at a cut must come once.",
    tested="A split is read whole, and again cut in two at every position that there is.",
    passes="Both readings give the same rows in the same order.",
    look_at=("whether start is inclusive and end exclusive", "whether reading begins at start or behind it"),
    witness=("a cut between two rows",),
    source=_CONTRACT,
)
def check_every_cut_of_a_range_gives_the_same_rows(lab: Lab) -> None:
    """Cut a split at every position."""
    lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(6)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    for split, extent in enumerator.extents(lab.discovered(enumerator)).items():
        whole = lab.keys(lab.read(source, [SplitRange(split, extent.begin, extent.end)], enumerator))
        for cut in range(extent.begin + 1, extent.end):
            halves = [SplitRange(split, extent.begin, cut), SplitRange(split, cut, extent.end)]
            parts = [lab.keys(lab.read(source, [half], enumerator)) for half in halves]
            if all(parts):
                lab.saw("a cut between two rows")
            wrong = ordered_difference(f"{split} read whole, and cut at {cut}", whole, parts[0] + parts[1])
            if wrong is not None:
                raise lab.fail(wrong)
