"""Runs discovery rounds beside the plans, so that a long round delays no batch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter

__all__ = ["BackgroundRounds"]

_PATIENCE_S = 5.0  # for a round; a longer round continues beside the plans


class BackgroundRounds:
    """Runs one round at a time, in a thread."""

    def __init__(self, look: Callable[[], ChunkSorter]) -> None:
        self._look = look
        self._pool: DaemonThreads | None = None
        self._round: Future[ChunkSorter] | None = None

    def begin(self) -> Future[ChunkSorter]:
        """Begin a round, unless one is running."""
        if self._pool is None:
            self._pool = DaemonThreads(1, "tidegate-discovery")
        if self._round is None:
            self._round = self._pool.submit(self._look)
        return self._round

    def found(self) -> ChunkSorter | None:
        """Return the result of a round; None: it is still running.  Raises the errors of the round.

        The first call waits for its round to end, because a bounded run must read all objects.  A later call waits for
        some seconds, and leaves a longer round to the next calls.
        """
        patience_s = None if self._pool is None else _PATIENCE_S if self._round is None else 0.0
        current = self.begin()
        if not wait([current], patience_s).done:
            return None
        self._round = None
        return current.result()

    def close(self) -> None:
        """Begin no more rounds."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
