"""What Spark tells of the last batches of each query, for ``tidegate account``: a checkpoint holds no metrics.

The listener keeps Spark's progress of each batch as a note, which is soft state on the driver's machine.  A day after
the last batch of a query, the next query with a tidegate source removes its notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.sources.progress.plan import PlanFacts
from tidegate.sources.progress.query import QueryProgress, json_object

Told: TypeAlias = Mapping[int, QueryProgress]
"""What Spark told of a query, by batch."""
_MOST = 120  # batches; by default, a checkpoint keeps the last hundred
_PLAN = "plan"


def keep_batch(progress: Json, plan: PlanFacts | None) -> None:
    """Keep the progress of a batch, with what the plan of its run proves.  Raises ConnectorError if that fails."""
    number = progress["batchId"]
    # What splits hold would make the note long, and nobody asks for it.
    sources = [
        {**of, "latestOffset": {**json_object(of.get("latestOffset")), "bySplit": {}}} for of in progress["sources"]
    ]
    notes = _notes(progress["id"])
    notes.write(str(number), {**progress, "sources": sources, _PLAN: None if plan is None else plan._asdict()})
    notes.remove(str(number - _MOST))


def told(query_id: str) -> Told:
    """Return what is kept of a query.  Raises ConnectorError if it cannot be read."""
    batches = {}
    for name, note in _notes(query_id).notes():
        with suppress(KeyError, TypeError, ValueError):  # a note of another version of tidegate
            plan = note and note[_PLAN]
            batches[int(name)] = replace(QueryProgress.of(note or {}), plan=PlanFacts(**plan) if plan else None)
    return batches


def _notes(query_id: str) -> NoteFolder:
    return application_notes(query_id).within("told")
