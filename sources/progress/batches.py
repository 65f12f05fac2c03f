"""Leaves notes for planners with the durations of their batches, which only Spark's listener knows."""

from __future__ import annotations

import json
import logging
from collections import Counter
from weakref import WeakSet

from pyspark.sql import SparkSession

from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.planning.pace import BATCHES, batch_note
from tidegate.errors import ConnectorError
from tidegate.sources.progress.lifetime import add_listener
from tidegate.sources.progress.listener import ProgressListener
from tidegate.sources.progress.query import dropped_rows, json_object, late_dropped

_LOG = logging.getLogger("tidegate.listener")
_listening: WeakSet[SparkSession] = WeakSet()


def listen_to_batches(spark: SparkSession, application_id: str) -> None:
    """Add the listener to a session once; each session has its own queries."""
    if spark not in _listening:
        add_listener(spark, _BatchListener(application_notes(application_id).within(BATCHES)))
        _listening.add(spark)


class _BatchListener(ProgressListener):
    """Leaves a note for the planner of every tidegate source of a query, after each batch."""

    def __init__(self, notes: NoteFolder) -> None:
        self._notes = notes
        self._planners: dict[str, set[str]] = {}
        self._dropped = Counter[str]()

    def on_progress(self, progress: str) -> None:
        """Note the duration of the batch, and what the run has dropped as late."""
        batch = json.loads(progress)
        run = batch["runId"]
        self._dropped[run] += dropped_rows(batch) + late_dropped(batch)
        for source in batch["sources"]:
            planner = json_object(source.get("latestOffset")).get("planner")
            if not isinstance(planner, str) or not planner.isalnum():
                continue
            self._planners.setdefault(run, set()).add(planner)
            start, end = json_object(source["startOffset"]), json_object(source["endOffset"])
            if start == end:
                continue  # a batch of Spark's own, for timers and windows
            try:
                seconds = batch["batchDuration"] / 1000
                self._notes.write(planner, batch_note(end, seconds, batch["name"], self._dropped[run]))
            except ConnectorError as error:
                _LOG.warning("batches are sized by the time between plans: %s", error)

    def on_end(self, run_id: str) -> None:
        """Delete the notes."""
        self._dropped.pop(run_id, None)
        for planner in self._planners.pop(run_id, ()):
            self._notes.remove(planner)
