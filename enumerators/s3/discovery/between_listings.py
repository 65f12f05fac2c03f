"""The contract for finding new objects in the rounds between two full listings.

Each implementation may miss some objects.  So all objects are listed again now and then, and missed ones are found
late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from tidegate.readers.objects.values import S3Object

__all__ = ["AFTER", "LISTED", "BetweenListings"]

LISTED, AFTER = "listed_ms", "after"
"""The keys that ``settle`` may return; a snapshot holds only those of the implementation that wrote it."""


class BetweenListings(ABC):
    """Finds new objects without listing them all; one for each run of a query.

    backfill_ms: the time between full listings, which find missed objects (Auto Loader: backfillInterval); None: there
        is only the first one.

    Each round calls ``begin_round``, ``pages``, ``saw`` and ``end_round``, in this order.  A round that fails does not
    end, and the objects that it saw do not count.
    """

    asked_in_all_rounds: ClassVar[bool]
    """Whether ``pages`` is also called in rounds that list all objects."""

    noted: ClassVar[frozenset[str]] = frozenset({LISTED})
    """The keys that ``settle`` returns."""

    def __init__(self, backfill_ms: int | None) -> None:
        self._backfill_ms = backfill_ms
        self._listed_ms: int | None = None
        self._lists = False

    def begin_round(self, now_ms: int) -> bool:
        """Begin a round, and return whether it lists all objects.

        now_ms: ms since the epoch; the interval begins with the last round that listed all objects.
        """
        if self._listed_ms is None:
            self._lists = True
        else:
            # If the clock was ahead then, it does not show when the next one is due.
            age_ms = now_ms - self._listed_ms
            self._lists = self._backfill_ms is not None and not 0 <= age_ms < self._backfill_ms
        return self._lists

    @abstractmethod
    def pages(self) -> Generator[list[S3Object], None, None]:
        """Yield objects that may be new, in pages, with or without known ones."""

    def saw(self, page: Sequence[S3Object], new: Sequence[S3Object]) -> None:  # noqa: B027 - some learn nothing by it
        """Take in the objects of a page of this round, from any implementation, and which of them are new."""

    def end_round(self, begun_ms: int) -> int:
        """Complete a successful round, and return the time up to which all objects are known.

        That is the begin of the last listing of all objects: the next one shows later objects.
        """
        if self._lists:
            self._listed_ms = begun_ms
        return begun_ms if self._listed_ms is None else self._listed_ms

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the values of ``settle`` in a stored offset's snapshot.

        If another implementation stored them, all objects are listed first: it may have missed other objects.
        """
        if state.keys() == self.noted:
            self._listed_ms = state[LISTED]

    def settle(self, number: int) -> dict[str, Any]:
        """Learn that the objects found so far are stored once a manifest with this or a greater number is.

        Called after each round that ended well.  Returns the values that the snapshot holds for ``restore``.
        """
        del number
        return {LISTED: self._listed_ms}

    def stored(self, number: int) -> None:  # noqa: B027 - some wait for nothing
        """Learn that a stored offset names a manifest with this number."""

    def metrics(self) -> dict[str, int]:
        """Return the metrics of this run."""
        return {}

    def stop(self) -> None:  # noqa: B027 - some have no thread
        """Let work in other threads end soon; may be called twice."""
