"""What Spark has stored of a source: the offsets in the checkpoint of its query, batch by batch.

DIR/offsets/17    the end of batch 17 for each source of the query, stored before the batch is read
DIR/commits/17    there when the batch is written

Spark keeps the last hundred or so.  An offset stands in a line of its own, after a version and Spark's own notes;
version 2 of the file puts the source's name and a colon before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.s3.state.folder import LedgerFolder

__all__ = ["LoggedBatch", "SparkCheckpoint"]

_HEADER_LINES = 2


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch of a source.

    end: the source's offset after it.
    is_committed: it is written; of the others there is at most one, which Spark runs again.
    """

    number: int
    end: Offset
    is_committed: bool


class SparkCheckpoint:
    """The checkpoint of a query, of which one source is looked at.

    folder: what ``checkpointLocation`` names; it may not be there.
    is_wanted: tells by its offset the source that is looked at from the others of the query.

    Both methods raise ConnectorError when the folder cannot be read, and CheckpointError for an offset that is of
    another version of tidegate.
    """

    def __init__(self, folder: LedgerFolder, is_wanted: Callable[[Offset], bool]) -> None:
        self._offsets, self._commits = folder.within("offsets"), folder.within("commits")
        self._is_wanted = is_wanted

    def batches(self) -> list[LoggedBatch]:
        """Return the batches that Spark still knows, in order."""
        committed = _numbers(self._commits)
        found = []
        for number in sorted(_numbers(self._offsets)):
            end = self._end(number)
            if end is not None:
                found.append(LoggedBatch(number, end, number in committed))
        return found

    def last_committed(self) -> Offset | None:
        """Return the source's offset after the last batch that is written; None: there is none."""
        number = max(_numbers(self._offsets) & _numbers(self._commits), default=None)
        return None if number is None else self._end(number)

    def _end(self, number: int) -> Offset | None:
        stored = self._offsets.read(str(number))
        if stored is None:
            return None
        for line in stored.data.decode().splitlines()[_HEADER_LINES:]:
            _, brace, rest = line.partition("{")
            offset = _parsed(brace + rest)
            if offset is not None and self._is_wanted(offset):
                return offset
        return None


def _numbers(folder: LedgerFolder) -> set[int]:
    return {int(name) for name in folder.files() if name.isdecimal()}


def _parsed(text: str) -> Offset | None:
    """Return an offset of tidegate's; None: it is another source's, or says nothing yet."""
    try:
        found = Offset.recognized(json.loads(text))
    except ValueError:
        return None
    return found if found is not None and found.source else None
