"""Commits the positions of written batches to a consumer group, in the background, so that lag tools see the query.

Nothing depends on these commits: progress is in Spark's checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.errors import TidegateError
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.group import ConsumerGroup

_LOG = logging.getLogger("tidegate.planner")
_DEADLINE_S = 10.0
_AFTER_FAILURE_S = 60.0  # until the next attempt while no batch comes
_KEPT_S = 3600.0  # brokers delete offsets that were not committed for days
_PATIENCE_S = 5.0  # for the last commit at the end


class GroupCommits:
    """Commits the newest positions each time that a commit is done.

    A failed commit is logged as a warning, and tried again with the next batch, or after a minute.
    """

    def __init__(
        self, config: KafkaConnectionConfig, group_id: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._group_id, self._clock = group_id, clock
        self._group = ConsumerGroup(replace(config, deadline_s=min(config.deadline_s, _DEADLINE_S)), group_id)
        self._threads = DaemonThreads(1, "tidegate-commits")
        self._changed = threading.Lock()
        self._wanted: Mapping[TopicPartition, int] = {}
        self._is_open = False  # there are positions to commit
        self._is_closed = False
        self._again_s = clock()
        self._warned = ""
        self._run: Future[None] | None = None

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Schedule positions for a commit, and return at once.  Called before every plan, often without change."""
        with self._changed:
            is_due = self._clock() >= self._again_s
            if not positions or (positions == self._wanted and not is_due):
                return
            self._wanted = dict(positions)
            self._again_s = self._clock() + _KEPT_S
            if not self._is_open:
                self._is_open = True
                self._run = self._threads.submit(self._work)

    def close(self) -> None:
        """Wait a moment for the last commit, and close the connections."""
        if self._run is not None:
            wait([self._run], _PATIENCE_S)
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._group.close()

    def _work(self) -> None:
        while True:
            wanted, failure = self._wanted, None
            try:
                self._group.commit(wanted)
            except Exception as problem:  # noqa: BLE001 - nobody waits for this thread, and a later commit may succeed
                failure = problem
            with self._changed:
                if failure is not None:
                    self._again_s = self._clock() + _AFTER_FAILURE_S
                if self._wanted is wanted or self._is_closed:
                    self._is_open = False
                    break
        self._tell(failure)

    def _tell(self, failure: Exception | None) -> None:
        if self._is_closed:  # the connections were closed during the commit
            return
        is_ours = failure is None or isinstance(failure, TidegateError)
        sentence = str(failure or "") if is_ours else f"{type(failure).__name__}: {failure}"
        if sentence and sentence != self._warned:
            _LOG.warning(
                "the query continues, but commitGroupId %r keeps its old offsets: %s", self._group_id, sentence
            )
        self._warned = sentence
