"""Reads the offsets of a source from the checkpoint of its query, batch by batch.

DIR/offsets/17    the end of batch 17 for each source of the query, stored before the batch is read
DIR/commits/17    there when the batch is written

Spark keeps about the last hundred.  Each offset is a line, after a version and Spark's own notes; version 2 of the file
puts the source's name and a colon before it.
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
    is_committed: it is written; at most one batch is not, which Spark repeats.
    """

    number: int
    end: Offset
    is_committed: bool


class SparkCheckpoint:
    """The checkpoint of a query, for one of its sources.

    folder: the ``checkpointLocation``; it need not exist.
    is_wanted: selects the source among those of the query, by its offset.

    Both methods raise ConnectorError if the folder cannot be read, and CheckpointError for an offset of another version
    of tidegate.
    """

    def __init__(self, folder: LedgerFolder, is_wanted: Callable[[Offset], bool]) -> None:
        self._offsets, self._commits = folder.within("offsets"), folder.within("commits")
        self._is_wanted = is_wanted

    def batches(self) -> list[LoggedBatch]:
        """Return the batches that Spark still knows, in order."""
        committed = _numbers(self._commits)
        batches = []
        for number in sorted(_numbers(self._offsets)):
            end = self._end(number)
            if end is not None:
                batches.append(LoggedBatch(number, end, number in committed))
        return batches

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
    """Return an offset of tidegate; None: it is another source's, or the initial one."""
    try:
        offset = Offset.recognized(json.loads(text))
    except ValueError:
        return None
    return offset if offset is not None and offset.source else None
