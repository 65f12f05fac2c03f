"""Tells planners how long their batches took: Spark's listener hears of it, and they do not."""

from __future__ import annotations

import json
import logging

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidegate.enumerators.pace import BATCHES, batch_note
from tidegate.enumerators.state_folder import StateFolder
from tidegate.errors import ConnectorError

__all__ = ["listen_to_batches"]

_LOG = logging.getLogger("tidegate.listener")
_listening: set[str] = set()  # applications


def listen_to_batches(spark: SparkSession, application_id: str) -> None:
    """Add the listener to a session, once for each application."""
    if application_id not in _listening:
        spark.streams.addListener(_BatchListener(StateFolder.of_application(application_id).within(BATCHES)))
        _listening.add(application_id)


class _BatchListener(StreamingQueryListener):
    """Leaves a note for the planner of every tidegate source of a query, after each batch."""

    def __init__(self, notes: StateFolder) -> None:
        self._notes = notes
        self._planners: dict[str, set[str]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - PySpark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Note rows and duration of the batch."""
        progress = event.progress
        for source in progress.sources:
            planner = _planner(source.latestOffset)
            if planner is None:
                continue
            self._planners.setdefault(str(progress.runId), set()).add(planner)
            note = batch_note(progress.batchId, source.numInputRows, progress.batchDuration / 1000)
            try:
                self._notes.write(planner, note)
            except ConnectorError as error:
                _LOG.warning("batches are sized by the time between plans: %s", error)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take the notes away."""
        for planner in self._planners.pop(str(event.runId), ()):
            self._notes.remove(planner)


def _planner(report: str | None) -> str | None:
    """Return the id that a tidegate source's report holds; None: it is none."""
    try:
        found = json.loads(report or "null")
    except ValueError:
        return None
    planner = found.get("planner") if isinstance(found, dict) else None
    return planner if isinstance(planner, str) and planner.isalnum() else None
