"""SPLIT: the begins of splits with deleted first rows."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.alignment.splits import Extent
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule


@rule("SPLIT-20", needs=(Ability.RETENTION,))
def a_begin_moves_with_every_row_that_is_deleted(lab: Lab) -> None:
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(0, 1))
    split = lab.split(*after(0, 1, 2))
    source, enumerator = lab.opened()
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


@rule("SPLIT-21", needs=(Ability.RETENTION,))
def a_query_begins_with_the_rows_that_are_left(lab: Lab) -> None:
    old = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    old.trim(2)
    query = Query(lab, lab.source())
    query.run_until_read(old.rows[2:])
    if lab.can(Ability.NEW_SPLITS):
        late = lab.split(*after(4, 5))
        late.trim(1)
        query.run_until_read(late.rows[1:])
    lab.compare(query.delivered)
