"""Notes with the last progress of every planner, which ``tidegate watch`` reads without asking Spark."""

from __future__ import annotations

import logging
import os
import time
import uuid
from contextlib import suppress

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.process_identity import this_process
from tidegate.errors import ConnectorError

_LOG = logging.getLogger("tidegate.planner")
PROGRESS = "progress"
_INTERVAL_S = 0.5


class ProgressNote:
    """The note of one planner.

    It is ``{"source", "reads", "pid", "process", "started", "updated", "progress"}``; times in wall-clock ms.

    reads: the topics or the path, for display; without secrets.
    """

    def __init__(self, application: NoteFolder, source: str, reads: str) -> None:
        self.planner_id = uuid.uuid4().hex[:12]
        self._folder = application.within(PROGRESS)
        self._about = {
            "source": source,
            "reads": reads,
            "pid": os.getpid(),
            "process": this_process(),
            "started": _now_ms(),
        }
        self._written_at = float("-inf")
        self._broken = False

    def write(self, progress: Json | None) -> None:
        """Write the progress, unless it was written a moment ago.  Never fails, because a query does not need it."""
        now = time.monotonic()
        if progress is None or self._broken or now - self._written_at < _INTERVAL_S:
            return
        self._written_at = now
        try:
            self._folder.write(self.planner_id, {**self._about, "updated": _now_ms(), "progress": progress})
        except ConnectorError as error:
            self._broken = True
            _LOG.warning("tidegate watch will not show this query: %s", error)

    def remove(self) -> None:
        """Remove the note at the end of the run.  Never fails, either."""
        with suppress(ConnectorError):
            self._folder.remove(self.planner_id)


def _now_ms() -> int:
    return int(time.time() * 1000)
