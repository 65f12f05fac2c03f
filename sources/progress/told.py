"""What Spark tells of the last batches of each query, for ``tidegate account``: a checkpoint holds no metrics.

The listener keeps Spark's progress of each batch as a note, and facts of the query's plan as another one.  They are
soft state on the driver's machine.  A day after its last batch, the next query with a tidegate source removes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.sources.progress.query import QueryProgress, json_object

_MOST = 120  # batches; by default, a checkpoint keeps the last hundred
_PLAN = "plan"
_STEP = r"^[\W\d]*\w*"  # of a plan, and not the name of a column
_MULTIPLIES_ROWS = re.compile(
    rf"{_STEP}(?:Expand|Generate|Join|CartesianProduct|MapIn|FlatMap|MapPartitions|Sample|UDTF)", re.MULTILINE
)
_AGGREGATES = re.compile(rf"{_STEP}Aggregate\(.*$", re.MULTILINE)


class PlanFacts(NamedTuple):
    """What the physical plan of a query says of its state.  The plan itself may hold secrets, such as keys.

    tells_rows: whether the state may tell how many rows are in open windows.
    counts_all: whether its count is of all rows.
    """

    tells_rows: bool
    counts_all: bool

    @classmethod
    def of(cls, plan: str) -> PlanFacts:
        """Return the facts of a plan, given as text."""
        aggregates = _AGGREGATES.findall(plan)
        counts_all = all("count(1)" in step and "count(1) FILTER" not in step for step in aggregates)
        return cls(bool(aggregates) and not _MULTIPLIES_ROWS.search(plan), counts_all)


class Told(NamedTuple):
    """What Spark told of a query on this machine.

    batches: the batches, by number.
    plan: facts of Spark's physical plan in the run of the last batch; None: they are not known.
    """

    batches: Mapping[int, QueryProgress]
    plan: PlanFacts | None


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


def keep_plan(query_id: str, run_id: str, plan: PlanFacts) -> None:
    """Keep facts of the physical plan of a run.  Raises ConnectorError if they cannot be written."""
    _notes(query_id).write(_PLAN, {"runId": run_id, **plan._asdict()})


def told(query_id: str) -> Told:
    """Return what is kept of a query.  Raises ConnectorError if it cannot be read."""
    notes = {name: note for name, note in _notes(query_id).notes() if note is not None}
    stored, plan, batches = notes.pop(_PLAN, {}), None, {}
    for name, note in notes.items():
        with suppress(KeyError, TypeError, ValueError):  # a note of another version of tidegate
            batches[int(name)] = QueryProgress.of(note)
    with suppress(KeyError):
        if batches and batches[max(batches)].run_id == stored["runId"]:
            plan = PlanFacts(*(stored[name] for name in PlanFacts._fields))
    return Told(batches, plan)


def _notes(query_id: str) -> NoteFolder:
    return application_notes(query_id).within("told")
