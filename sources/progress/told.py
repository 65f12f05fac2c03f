"""What Spark tells of the last batches of each query, for ``tidegate account``: a checkpoint holds no metrics.

The listener keeps Spark's progress of each batch as a note, and the query's plan as another one.  They are soft state
on the driver's machine, and are gone a day after the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.sources.progress.query import QueryProgress, json_object

_MOST = 120  # batches; by default, a checkpoint keeps the last hundred
_PLAN = "plan"


class Told(NamedTuple):
    """What Spark told of a query on this machine.

    batches: the batches, by number.
    plan: Spark's physical plan of the query, as text; None: it is not known.
    """

    batches: Mapping[int, QueryProgress]
    plan: str | None


NOTHING_TOLD = Told({}, None)


def keep_batch(progress: Json) -> None:
    """Keep the progress of a batch.  Raises ConnectorError if it cannot be written."""
    number = progress["batchId"]
    # What splits hold would make the note long, and nobody asks for it.
    sources = [
        {**of, "latestOffset": {**json_object(of.get("latestOffset")), "bySplit": {}}} for of in progress["sources"]
    ]
    notes = _notes(progress["id"])
    notes.write(str(number), {**progress, "sources": sources})
    notes.remove(str(number - _MOST))


def keep_plan(query_id: str, plan: str) -> None:
    """Keep the physical plan of a query.  Raises ConnectorError if it cannot be written."""
    _notes(query_id).write(_PLAN, {_PLAN: plan})


def told(query_id: str) -> Told:
    """Return what is kept of a query.  Raises ConnectorError if it cannot be read."""
    notes = {name: note for name, note in _notes(query_id).notes() if note is not None}
    plan, batches = notes.pop(_PLAN, {}).get(_PLAN), {}
    for name, note in notes.items():
        with suppress(KeyError, TypeError, ValueError):  # a note of another version of tidegate
            batches[int(name)] = QueryProgress.of(note)
    return Told(batches, plan)


def _notes(query_id: str) -> NoteFolder:
    return application_notes(query_id).within("told")
