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
HOUR = "hour"  # the folder with the samples of the last hour
SAMPLE_S = 30
_INTERVAL_S = 0.5
_SAMPLES = 3600 // SAMPLE_S
_SAMPLED = ("watermark", "bound", "low", "spread")
_MOST_SPLITS = 12  # of a picture with a line for each


class ProgressNote:
    """The note of one planner.

    It is ``{"source", "reads", "pid", "process", "started", "updated", "progress"}``; times in wall-clock ms.
    A second note, ``{"samples": [[time, progress], ...]}``, has a part of the progress every half minute of the last
    hour in which it was written.

    reads: the topics or the path, for display; without secrets.
    """

    def __init__(self, application: NoteFolder, source: str, reads: str) -> None:
        self.planner_id = uuid.uuid4().hex[:12]
        self._folder, self._hour = application.within(PROGRESS), application.within(HOUR)
        self._about = {
            "source": source,
            "reads": reads,
            "pid": os.getpid(),
            "process": this_process(),
            "started": _now_ms(),
        }
        self._written_at = self._sampled_at = float("-inf")
        self._samples: list[tuple[int, Json]] = []
        self._broken = False

    def write(self, progress: Json | None) -> None:
        """Write the progress, unless it was written a moment ago.  Never fails, because a query does not need it."""
        now = time.monotonic()
        if progress is None or self._broken or now - self._written_at < _INTERVAL_S:
            return
        self._written_at = now
        now_ms = _now_ms()
        try:
            self._folder.write(self.planner_id, {**self._about, "updated": now_ms, "progress": progress})
            if now - self._sampled_at >= SAMPLE_S:
                self._sampled_at = now
                by_split = progress.get("bySplit", {})
                few = by_split if len(by_split) <= _MOST_SPLITS else {}
                self._samples.append((now_ms, {**{key: progress.get(key) for key in _SAMPLED}, "bySplit": few}))
                del self._samples[:-_SAMPLES]
                self._hour.write(self.planner_id, {"samples": self._samples})
        except ConnectorError as error:
            self._broken = True
            _LOG.warning("tidegate watch will not show this query: %s", error)

    def remove(self) -> None:
        """Remove the notes at the end of the run.  Never fails, either."""
        for folder in (self._folder, self._hour):
            with suppress(ConnectorError):
                folder.remove(self.planner_id)


def _now_ms() -> int:
    return int(time.time() * 1000)
