"""Leaves notes with what only Spark's listener knows: of batches for their planners, of queries for their accounts."""

from __future__ import annotations

import json
import logging
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql import SparkSession

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes, remove_forgotten
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.pace import BATCHES, batch_note
from tidegate.errors import ConnectorError
from tidegate.sources.progress.lifetime import add_listener
from tidegate.sources.progress.listener import ProgressListener
from tidegate.sources.progress.query import dropped_rows, json_object, late_dropped
from tidegate.sources.progress.told import PlanFacts, keep_batch, keep_plan
from tidegate.spark_private import physical_plan

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryManager

_LOG = logging.getLogger("tidegate.listener")
_listening: WeakSet[SparkSession] = WeakSet()


def listen_to_batches(spark: SparkSession, application_id: str) -> None:
    """Add the listener to a session once, and remove old notes; each session has its own queries."""
    if spark not in _listening:
        with suppress(OSError):  # a query needs no notes
            remove_forgotten()
        add_listener(spark, _BatchListener(application_notes(application_id).within(BATCHES), spark.streams))
        _listening.add(spark)


class _BatchListener(ProgressListener):
    """Leaves notes after each batch of a query with a tidegate source."""

    def __init__(self, notes: NoteFolder, streams: StreamingQueryManager) -> None:
        self._notes, self._streams = notes, streams
        self._planners: dict[str, set[str]] = {}
        self._dropped = Counter[str]()
        self._planned: set[str] = set()  # the runs whose plan is kept

    def on_progress(self, progress: str) -> None:
        """Note the duration of the batch, what the run has dropped as late, and what became of the batch's rows."""
        batch = json.loads(progress)
        self._dropped[batch["runId"]] += dropped_rows(batch) + late_dropped(batch)
        notes = [partial(self._tell_planner, batch, source) for source in batch["sources"]]
        for leave in [*notes, partial(self._keep, batch)]:
            try:
                leave()
            except ConnectorError as error:  # noqa: PERF203 - one that cannot be left keeps no other back
                _LOG.warning("planners and `tidegate account` do not learn what Spark tells of a batch: %s", error)

    def on_end(self, run_id: str) -> None:
        """Delete the notes for planners."""
        self._dropped.pop(run_id, None)
        self._planned.discard(run_id)
        for planner in self._planners.pop(run_id, ()):
            self._notes.remove(planner)

    def _tell_planner(self, batch: Json, source: Json) -> None:
        run, planner = batch["runId"], json_object(source.get("latestOffset")).get("planner")
        if not isinstance(planner, str) or not planner.isalnum():
            return
        self._planners.setdefault(run, set()).add(planner)
        start, end = json_object(source["startOffset"]), json_object(source["endOffset"])
        if start != end:  # else it is a batch of Spark's own, for timers and windows
            seconds = batch["batchDuration"] / 1000
            self._notes.write(planner, batch_note(end, seconds, batch["name"], self._dropped[run]))

    def _keep(self, batch: Json) -> None:
        query_id, run = batch["id"], batch["runId"]
        if not any(Offset.recognizes(json_object(source["endOffset"])) for source in batch["sources"]):
            return
        if batch["stateOperators"] and run not in self._planned:
            for plan in self._plans(run):
                keep_plan(query_id, run, PlanFacts.of(plan))
                self._planned.add(run)
        keep_batch(batch)

    def _plans(self, run: str) -> list[str]:
        """Return the plan of a run; none if Spark no longer has it."""
        with suppress(Exception):  # Spark may be about to end
            return [physical_plan(query) for query in self._streams.active if query.runId == run]
        return []
