"""Listens to Spark's progress, and leaves notes of what only a listener knows: for planners, and for accounts.

A checkpoint holds no metrics.  Spark's progress of each batch is kept on the driver's machine as soft state.  A day
after the last batch of a query, the next query with a tidegate source removes its notes.
"""

from __future__ import annotations

import atexit
import json
import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes, remove_forgotten
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.pace import BATCHES, batch_note
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import ConnectorError, OptionError
from tidegate.sources.progress.query import (
    PlanFacts,
    QueryProgress,
    check_session,
    dropped_rows,
    json_object,
    late_dropped,
)
from tidegate.spark_private import before_stop, java_context, java_of_process, plan_steps, silence_java_bridge

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryManager


_LOG = logging.getLogger("tidegate.listener")


class ProgressListener(StreamingQueryListener, ABC):
    """Receives each progress and the end of each query of a session, one call at a time."""

    @abstractmethod
    def on_progress(self, progress: str) -> None:
        """Take the JSON of a StreamingQueryProgress."""

    @abstractmethod
    def on_end(self, run_id: str) -> None:
        """Take the id of a run that has ended: by itself, by ``stop`` or by an error."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - PySpark's name
        """Ignore the start: nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take the JSON of an event.  Spark Connect calls this."""
        self.on_progress(event.progress.json)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take the end of a run.  Spark Connect calls this."""
        self.on_end(str(event.runId))

    @property
    def _jlistener(self) -> Any:
        # PySpark reads this to add and to remove the listener.
        if not hasattr(self, "_for_java"):
            self._for_java = java_of_process().PythonStreamingQueryListenerWrapper(_CalledByJava(self))
        return self._for_java


class _CalledByJava:
    """Takes the JSON of an event.

    PySpark's own class fetches each value by a call into Java.  That is a hundred calls for the metrics of a state
    store alone, before the listener sees the event.
    """

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Java's name
        """Fetch nothing, because the start of the query waits for this."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._listener.on_progress(event.progress().json())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore the event: nothing is new."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._listener.on_end(event.runId().toString())

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_UNTIL_REPORTED_MS = 2_000
_added: WeakKeyDictionary[SparkSession, WeakSet[StreamingQueryListener]] = WeakKeyDictionary()


def add_listener(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener to a session, and remove it at the end of this process at the latest.

    Spark's Java process lives a moment longer than this one, even if a script does not stop its session.  It would
    print a stack trace for every event that it can no longer deliver.

    A client of Spark Connect removes its listeners after it has closed the session, which client and server then
    report as an error, so there ``spark.stop`` removes them first.
    """
    spark.streams.addListener(listener)
    if spark not in _added and not _is_classic(spark):
        before_stop(spark, partial(_remove_each, spark))
    _added.setdefault(spark, WeakSet()).add(listener)


def await_events(spark: SparkSession) -> None:
    """Wait, 2 s at most, until listeners know the events so far.  A client of Spark Connect cannot wait."""
    with suppress(Exception):  # Java may have ended
        java_context(spark).sc().listenerBus().waitUntilEmpty(_UNTIL_REPORTED_MS)


def _is_classic(spark: SparkSession) -> bool:
    return getattr(spark, "sparkContext", None) is not None


def _remove_each(spark: SparkSession) -> None:
    for listener in _added.pop(spark, ()):
        with suppress(Exception):
            spark.streams.removeListener(listener)


@atexit.register
def _remove_all() -> None:
    for spark in filter(_is_classic, [*_added]):
        if java_context(spark) is not None:  # else it was stopped
            silence_java_bridge()
            await_events(spark)
            _remove_each(spark)
            await_events(spark)  # a running call ends before the objects that it uses


def on_progress(
    spark: SparkSession, callback: Callable[[str, int, list[SourceProgress]], object]
) -> StreamingQueryListener:
    """Call a function after every batch, of all queries of the session that have a tidegate source.

    callback: takes the query's name, or its id if it has none; the batch's id; and the result of ``progress``.  It is
        called in a thread of Spark, one call at a time: a slow call delays the next call, never the query.  Its errors
        are logged, and do not end the query.

    Returns the listener; ``spark.streams.removeListener`` ends the calls.

    Raises OptionError if ``callback`` is not a function, or ``spark`` not a session.
    """
    if not callable(callback):
        raise OptionError(f"on_progress() calls a function after every batch, and {callback!r} is not one")
    check_session(spark)
    listener = _Caller(callback)
    add_listener(spark, listener)
    return listener


class _Caller(ProgressListener):
    def __init__(self, callback: Callable[[str, int, list[SourceProgress]], object]) -> None:
        self._callback = callback

    def on_progress(self, progress: str) -> None:
        try:
            entry = QueryProgress.parse(progress)
            if source_progress := entry.source_progress:
                self._callback(entry.name or entry.id, entry.number, source_progress)
        except Exception:  # noqa: BLE001 - it is the caller's code
            _LOG.exception("a callback of tidegate.on_progress failed")

    def on_end(self, run_id: str) -> None:
        """Nothing to do."""


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
