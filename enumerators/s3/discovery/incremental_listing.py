"""Lists only new objects, if the keys of objects rise with time (Auto Loader: incremental listing).

S3 lists keys in their order, and begins after any given key.  Full listings in between find the objects that come out
of order, or too late: see LATE_S.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar

from tidegate.enumerators.s3.discovery.between_listings import AFTER, LISTED, BetweenListings
from tidegate.errors import counted
from tidegate.readers.objects.values import S3Object

__all__ = ["LATE_S", "IncrementalListing"]

_LOG = logging.getLogger("tidegate.planner")
_MOST_STORED = 1_100  # characters of JSON; a key of ASCII has at most 1,026

LATE_S = 600
"""The longest time after its LastModified, or that of an object with a later key, at which an object may appear.

An object that appears later is missed until the next full listing.
"""


class IncrementalListing(BetweenListings):
    """Lists the objects after the key up to which all objects are known.

    pages: lists the objects whose keys come after one, in the order of their UTF-8 bytes; None: all.
    prefix: the prefix of the keys.
    clock: returns seconds since the epoch.
    """

    asked_in_all_rounds: ClassVar[bool] = False
    noted: ClassVar[frozenset[str]] = frozenset({LISTED, AFTER})

    def __init__(
        self,
        pages: Callable[[str | None], Generator[list[S3Object]]],
        prefix: str,
        backfill_ms: int | None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(backfill_ms)
        self._list, self._prefix, self._clock = pages, prefix, clock
        self._known = self._round = _KnownKeys()
        self._late_example: str | None = None  # of this round, as is their number
        self._late_count = self._late_total = 0
        self._begun_s = 0.0

    def begin_round(self, now_ms: int) -> bool:
        """Begin a round, and return whether it must list all objects."""
        lists = super().begin_round(now_ms)
        self._round = self._known.copy()
        self._late_example, self._late_count = None, 0
        self._begun_s = now_ms / 1000
        return lists

    def pages(self) -> Generator[list[S3Object], None, None]:
        """List the objects that may be new."""
        return self._list(self._known.last)

    def saw(self, page: Sequence[S3Object], new: Sequence[S3Object]) -> None:
        """Take in the objects of a page."""
        self._round.add(page, self._begun_s, self._clock())
        last = self._known.last
        late = [] if last is None else [obj.key for obj in new if obj.key <= last]
        if late:
            self._late_example = self._late_example or late[0]
            self._late_count += len(late)

    def end_round(self, begun_ms: int) -> int:
        """Complete a successful round."""
        self._known = self._round
        if self._late_count:
            self._late_total += self._late_count
            _LOG.warning(
                "found late, because out of the order of keys: %s, such as %r; where that is the rule, set "
                "useIncrementalListing to false, or backfillInterval to less",
                counted(self._late_count, "object"),
                self._late_example,
            )
        return super().end_round(begun_ms)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a stored offset, unless it belongs to another path."""
        after = state.get(AFTER)
        if after is None or after.startswith(self._prefix):
            super().restore(state)
            self._known = _KnownKeys(after)

    def settle(self, number: int) -> dict[str, Any]:
        """Return the key that the snapshot holds."""
        last = self._known.last
        return {**super().settle(number), AFTER: None if last is None else _beginning(last)}

    def metrics(self) -> dict[str, int]:
        """Return the number of objects that were found late in this run."""
        return {"numFilesOutOfOrder": self._late_total}


def _beginning(key: str) -> str:
    """Return as much of a key as fits into an offset: a restart lists the rest again, and knows it."""
    while (length := len(json.dumps(key))) > _MOST_STORED:
        key = key[: len(key) * _MOST_STORED // length]
    return key


class _KnownKeys:
    """Finds the key up to which all objects are known, if keys rise with time.

    last: that key; None: none is known.  It is the key of the newest object that is older than LATE_S by the endpoint's
        clock.  It is not the greatest key: one stray key at the very end would hide all later objects.
    """

    def __init__(self, last: str | None = None) -> None:
        self.last = last
        self._last_second = -math.inf  # its LastModified; most endpoints give only seconds
        self._recent: dict[int, str] = {}  # the greatest key of each second

        # The age of the youngest object so far by our own clock: the endpoint's clock is behind by at most this.
        self._age_s = math.inf

    def add(self, page: Sequence[S3Object], begun_s: float, now_s: float) -> None:
        """Take listed objects into account.

        begun_s: when the listing began.  now_s: some time after they were listed; both by our own clock.
        """
        for obj in page:
            second = obj.modified_ms // 1000
            self._age_s = min(self._age_s, max(now_s - second, 0))
            self._recent[second] = max(self._recent.get(second, ""), obj.key)
        settled_s = begun_s - self._age_s - LATE_S
        for second in sorted(second for second in self._recent if second < settled_s - 1):
            key = self._recent.pop(second)
            if self.last is None or (second, key) > (self._last_second, self.last):
                self.last, self._last_second = key, second

    def copy(self) -> _KnownKeys:
        """Return a copy."""
        twin = _KnownKeys(self.last)
        twin._last_second, twin._recent, twin._age_s = self._last_second, {**self._recent}, self._age_s
        return twin
