"""SPLIT: the begins of splits with deleted first rows."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.alignment.splits import Extent
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query

__all__ = [
    "check_a_begin_moves_with_every_row_that_is_deleted",
    "check_a_query_begins_with_the_rows_that_are_left",
]


@rule(
    "SPLIT-20",
    "a begin moves with every row that is deleted, and for its own split alone",
    purpose="A begin that lags by one row hides the loss of that row. A begin that belongs to another split reports "
    "a loss that did not happen.",
    tested="The rows of one of two splits are deleted one by one, up to the last.",
    passes="The begin lies after the last deleted row, but not after the first remaining row. The begin of the other "
    "split does not move.",
    look_at=("an off-by-one error in the begin", "a request for the first row of all splits instead of one split"),
    needs=(Ability.RETENTION,),
    source="Extent.begin",
)
def check_a_begin_moves_with_every_row_that_is_deleted(lab: Lab) -> None:
    """Delete one row after the other."""
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(0, 1))
    split = lab.split(*after(0, 1, 2))
    source = lab.source()
    enumerator = lab.enumerator(source)
    placed = lab.placed(source, enumerator)
    before = enumerator.extents(sorted(placed))
    stands = {key: (name, at) for name, rows in placed.items() for at, keys in rows.items() for key in keys}
    others = before.keys() - {stands[key][0] for key in split.keys}
    for trimmed, row in enumerate(split.rows, 1):
        split.trim(trimmed)
        name, gone_at = stands[row.key]

        def moved(name: str = name, gone_at: int = gone_at) -> Mapping[str, Extent] | None:
            extents = enumerator.extents(enumerator.discover())
            return extents if name not in extents or extents[name].begin > gone_at else None

        extents = lab.until(
            moved, f"the row at {gone_at} of {name!r} is deleted, but {name!r} does not begin behind it"
        )
        for key in split.keys:
            where, at = stands[key]
            begin = extents[where].begin
            lab.expect(begin <= at, f"{where!r} begins at {begin}, but its row {key} at {at} is still there")
        for other in others:
            was, begin = before[other].begin, extents[other].begin
            lab.expect(was == begin, f"{other!r} began at {was}, but begins at {begin} since rows of {name!r} are gone")


@rule(
    "SPLIT-21",
    "a query begins with the rows that are left",
    purpose="Rows that are deleted before a query begins are not data loss. The query must not wait for them.",
    tested="The first rows of a split are deleted, and a query begins. Where possible, another split with a deleted "
    "first row appears.",
    passes="The query delivers all remaining rows of both splits. It reports no data loss.",
    look_at=("starts(): return the begin, not 0", "starts() with first=False: return the begin, too"),
    needs=(Ability.RETENTION,),
    source="SplitEnumerator.starts",
)
def check_a_query_begins_with_the_rows_that_are_left(lab: Lab) -> None:
    """Delete rows before a query begins."""
    old = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    old.trim(2)
    query = Query(lab, lab.source())
    query.run_until_read(old.rows[2:])
    if lab.can(Ability.NEW_SPLITS):
        late = lab.split(*after(4, 5))
        late.trim(1)
        query.run_until_read(late.rows[1:])
    lab.compare(query.delivered)
