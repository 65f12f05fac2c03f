"""Leaves notes with what only Spark's listener knows: of batches for their planners, of queries for their accounts.

A checkpoint holds no metrics.  Spark's progress of each batch is kept on the driver's machine as soft state.  A day
after the last batch of a query, the next query with a tidegate source removes its notes.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

from pyspark.sql import SparkSession

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes, remove_forgotten
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.pace import BATCHES, batch_note
from tidegate.errors import ConnectorError
from tidegate.sources.progress.listener import ProgressListener, add_listener, await_events
from tidegate.sources.progress.query import PlanFacts, QueryProgress, dropped_rows, json_object, late_dropped
from tidegate.spark_private import plan_steps

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryManager

KeptBatches: TypeAlias = Mapping[int, QueryProgress]
"""What Spark reported of a query, by batch."""
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


def kept_batches(query_id: str) -> KeptBatches:
    """Return what is kept of a query.  Raises ConnectorError if it cannot be read."""
    batches = {}
    for name, note in _notes(query_id).notes():
        with suppress(KeyError, TypeError, ValueError):  # a note of another version of tidegate
            plan = note and note[_PLAN]
            entry = QueryProgress.of(note or {}).with_bad_records()
            batches[int(name)] = replace(entry, plan=PlanFacts(**plan) if plan else None)
    return batches


def _notes(query_id: str) -> NoteFolder:
    return application_notes(query_id).within("batches")


_LOG = logging.getLogger("tidegate.listener")
_listening: WeakSet[SparkSession] = WeakSet()
_first_batches: dict[str, int] = {}  # by run
_ended: deque[str] = deque()
_MOST_ENDED = 1_000  # runs whose first batch is known; a session may run a query every minute


def listen_to_batches(spark: SparkSession, application_id: str) -> None:
    """Add the listener to a session once, and remove old notes; each session has its own queries."""
    if spark not in _listening:
        with suppress(OSError):  # a query needs no notes
            remove_forgotten()
        add_listener(spark, _BatchListener(application_notes(application_id).within(BATCHES), spark.streams))
        _listening.add(spark)


def first_batch(run_id: str) -> int | None:
    """Return the first batch of a run; None: this process has not heard of it."""
    if run_id not in _first_batches:
        await_events(SparkSession.active())
    return _first_batches.get(run_id)


class _BatchListener(ProgressListener):
    """Leaves notes after each batch of a query with a tidegate source."""

    def __init__(self, notes: NoteFolder, streams: StreamingQueryManager) -> None:
        self._notes, self._streams = notes, streams
        self._planners: dict[str, set[str]] = {}
        self._dropped = Counter[str]()
        self._plans: dict[str, PlanFacts] = {}  # by run

    def on_progress(self, progress: str) -> None:
        """Note the duration of the batch, what the run has dropped as late, and what became of the batch's rows."""
        batch = json.loads(progress)
        _first_batches.setdefault(batch["runId"], batch["batchId"])
        self._dropped[batch["runId"]] += dropped_rows(batch) + late_dropped(batch)
        notes = [partial(self._note_for_planner, batch, source) for source in batch["sources"]]
        for leave in [*notes, partial(self._keep, batch)]:
            try:
                leave()
            except ConnectorError as error:  # noqa: PERF203 - one that cannot be left keeps no other back
                _LOG.warning("planners and `tidegate account` do not learn what Spark tells of a batch: %s", error)

    def on_end(self, run_id: str) -> None:
        """Delete the notes for planners, and forget what is long over."""
        _ended.append(run_id)
        if len(_ended) > _MOST_ENDED:
            _first_batches.pop(_ended.popleft(), None)
        self._dropped.pop(run_id, None)
        self._plans.pop(run_id, None)
        for planner in self._planners.pop(run_id, ()):
            self._notes.remove(planner)

    def _note_for_planner(self, batch: Json, source: Json) -> None:
        run, planner = batch["runId"], json_object(source.get("latestOffset")).get("planner")
        if not isinstance(planner, str) or not planner.isalnum():
            return
        self._planners.setdefault(run, set()).add(planner)
        start, end = json_object(source["startOffset"]), json_object(source["endOffset"])
        if start != end:  # else it is a batch of Spark's own, for timers and windows
            seconds = batch["batchDuration"] / 1000
            self._notes.write(planner, batch_note(end, seconds, batch["name"], self._dropped[run]))

    def _keep(self, batch: Json) -> None:
        if any(Offset.recognizes(json_object(source["endOffset"])) for source in batch["sources"]):
            keep_batch(batch, self._plan(batch))

    def _plan(self, batch: Json) -> PlanFacts | None:
        """Return what the plan of the batch's run proves; None: Spark does not tell, or no longer."""
        run = batch["runId"]
        if run not in self._plans:
            with suppress(Exception):  # Spark may be about to end
                (query,) = (query for query in self._streams.active if query.runId == run)
                self._plans[run] = PlanFacts.of(plan_steps(query), len(batch["sources"]))
        return self._plans.get(run)
