"""SPLIT: which splits there are."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.query import Query
from tidegate.conformance.rules import rule

__all__ = ["check_a_late_split_is_read_from_its_beginning"]


@rule(
    "SPLIT-1",
    "a late split is read from its beginning",
    purpose="The first rows of a split that comes during a run are lost otherwise.",
    tested="A query reads one split; a second one with rows appears; the query goes on.",
    passes="All rows of the second split are delivered, the first one included.",
    look_at=("starts() with first=False", "discover(), which must look again each time"),
    needs=(Ability.LATE_SPLITS,),
    witness=("a split that came late",),
    source="SplitEnumerator.starts; FLINK-29319",
)
def check_a_late_split_is_read_from_its_beginning(lab: Lab) -> None:
    """Let a split appear while a query runs."""
    first = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    query = Query(lab, lab.source())
    query.run_until_read(first.rows)
    late = lab.split(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS)
    query.run_until_read(late.rows)
    lab.saw("a split that came late")
    lab.compare(query.delivered)
