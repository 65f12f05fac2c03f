"""What finds new objects in the rounds between two listings of all there are.

Each way to do so may miss some, so all are listed again now and then: what was missed is found late, and not never.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from tidegate.readers.objects.values import S3Object

__all__ = ["AFTER", "LISTED", "BetweenListings"]

LISTED, AFTER = "listed_ms", "after"
"""The names of all that ``settle`` may return; a snapshot holds those of the way that wrote it, and no others."""


class BetweenListings(ABC):
    """Finds new objects without listing them all; one for each run of a query.

    backfill_ms: how long after such a listing the next one is due, which finds what was missed (Auto Loader:
        backfillInterval); None: the first is the only one.

    One round after the other calls ``begin_round``, ``pages``, ``saw`` and ``end_round``, in this order; one that
    fails does not come to its end, and what it saw counts for nothing.
    """

    asked_in_all_rounds: ClassVar[bool]
    """Whether ``pages`` is called in rounds that list all objects, too."""

    noted: ClassVar[frozenset[str]] = frozenset({LISTED})
    """The names of what ``settle`` returns."""

    def __init__(self, backfill_ms: int | None) -> None:
        self._backfill_ms = backfill_ms
        self._listed_ms: int | None = None
        self._lists = False

    def begin_round(self, now_ms: int) -> bool:
        """Begin a round, and tell whether it is to list all objects.

        now_ms: ms since the epoch; counted from the beginning of the last round that did.
        """
        if self._listed_ms is None:
            self._lists = True
        else:
            # A clock that was ahead then says nothing of when the next one is due.
            age_ms = now_ms - self._listed_ms
            self._lists = self._backfill_ms is not None and not 0 <= age_ms < self._backfill_ms
        return self._lists

    @abstractmethod
    def pages(self) -> Generator[list[S3Object], None, None]:
        """Yield what may be new, in pages, known objects among them or not."""

    def saw(self, page: Sequence[S3Object], new: Sequence[S3Object]) -> None:  # noqa: B027 - some learn nothing by it
        """Learn what a page of this round holds, of whichever way, and which of it was never found before."""

    def end_round(self, begun_ms: int) -> int:
        """Note that a round found all it could, and return until when nothing can come to light any more.

        That is when the last listing of all began: the next one shows what has come since.
        """
        if self._lists:
            self._listed_ms = begun_ms
        return begun_ms if self._listed_ms is None else self._listed_ms

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a stored offset, in whose snapshot stands what ``settle`` returned.

        Where another way has noted something, all objects are listed first: it may have missed others than this one.
        """
        if state.keys() == self.noted:
            self._listed_ms = state[LISTED]

    def settle(self, number: int) -> dict[str, Any]:
        """Learn that what was found so far is stored when a manifest with this number is, or one with a greater.

        Called after each round that ended well.  Returns what the snapshot has to hold for ``restore``.
        """
        del number
        return {LISTED: self._listed_ms}

    def stored(self, number: int) -> None:  # noqa: B027 - some wait for nothing
        """Learn that a stored offset names a manifest with this number."""

    def metrics(self) -> dict[str, int]:
        """Return the figures of this run."""
        return {}

    def stop(self) -> None:  # noqa: B027 - some have no thread
        """End what goes on in another thread soon; may be called twice."""
