"""STATE: restarts."""

from __future__ import annotations

from functools import partial

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.explain import difference
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule


@rule("STATE-2", needs=(Ability.START_AT_END,))
def a_start_is_kept_though_the_first_batch_fails(lab: Lab) -> None:
    split = lab.split(*after(0, 1))
    lab.wait_until_discovered(lab.source())
    query = Query(lab, lab.source_at_end())
    query.plan()
    query.crash()
    later = split.append_each(*after(2, 3))
    query.run_until_read(later)
    wanted = {split.number: [row.key for row in later]}
    lab.refuse(difference(wanted, query.delivered, in_order=False, wanted="asked for"))


@rule("STATE-7", witness=("a crash before the offset was stored", "a crash after it", "a crash after reading"))
def a_restart_at_any_point_costs_nothing(lab: Lab) -> None:
    splits = lab.two_splits(*after(*range(2)))
    query = Query(lab, lab.source())
    query.run_until_read(lab.rows)
    for number, point in enumerate(
        ("a crash before the offset was stored", "a crash after it", "a crash after reading")
    ):
        for split in splits:
            split.append(*after(10 + number))
        lab.until(partial(_get_to, query, point), "rows that were added are never planned")
        query.crash()
        lab.saw(point)
        query.run_until_read(lab.rows)
    for number, end in enumerate((query.crash, query.stop)):
        end()
        for split in splits:
            split.append(*after(60 + number))
        query.run_until_read(lab.rows)
    lab.refuse(query.missing())


def _get_to(query: Query, point: str) -> bool | None:
    """Begin a batch and get to a point of it."""
    if point == "a crash before the offset was stored":
        return query.running.latest_offset(query.last_offset) != query.last_offset or None
    planned = query.plan()
    if planned and point == "a crash after reading":
        query.read()
    return planned or None
