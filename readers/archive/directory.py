"""Which offsets of a partition an archive holds, and in which files.  Pure logic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tidegate.alignment.splits import SplitId
from tidegate.errors import DataLossError, OptionError

_EVER = 2**63 - 1


class ArchivedFile(Protocol):
    """A file of an archive, as far as it is about one partition.

    path: its name in the archive.
    first, next: no record of the partition is before ``first``, or at or after ``next``.
    """

    @property
    def path(self) -> str: ...  # noqa: D102 - see above
    @property
    def first(self) -> int: ...  # noqa: D102
    @property
    def next(self) -> int: ...  # noqa: D102


class ArchivedPart(NamedTuple):
    """A stretch of offsets that is read from files, from ``start`` to ``end``, exclusive; files may overlap."""

    start: int
    end: int
    files: tuple[Any, ...]


class Files(NamedTuple):
    """The files of a partition as arrays, in the order of their first offsets.

    next: exclusive.
    max_ms: no record of the partition is later.
    is_exact: whether ``max_ms`` is the time of a record.
    size: about the bytes that are of the partition.
    get: returns the file of a number.
    """

    first: npt.NDArray[np.int64]
    next: npt.NDArray[np.int64]
    max_ms: npt.NDArray[np.int64]
    is_exact: npt.NDArray[np.bool_]
    size: npt.NDArray[np.int64]
    get: Callable[[int], ArchivedFile]


_NONE = np.empty(0, np.int64)
NO_FILES = Files(_NONE, _NONE, _NONE, np.empty(0, np.bool_), _NONE, list[ArchivedFile]().__getitem__)


class Directory:
    """The files of one partition.

    topic_ids: the known ids of the topics whose records are archived.
    leader_epoch: no archived record is of a later leader epoch; None: unknown.
    holds_gaps: offsets between files are holes, as after a compaction; otherwise, they are missing.
    """

    def __init__(
        self,
        files: Files = NO_FILES,
        *,
        topic_ids: Collection[str] = (),
        leader_epoch: int | None = None,
        holds_gaps: bool = False,
    ) -> None:
        self._files = files
        self.topic_ids, self.leader_epoch = set(topic_ids), leader_epoch
        self._reached = np.maximum.accumulate(files.next)
        self._runs: list[list[int]] = []  # the begin and the end of stretches without a missing offset
        if len(files.first):
            gaps = [] if holds_gaps else (np.flatnonzero(files.first[1:] > self._reached[:-1]) + 1).tolist()
            cuts = pairwise([0, *gaps, len(files.first)])
            self._runs = [[int(files.first[begin]), int(self._reached[stop - 1])] for begin, stop in cuts]

    def __bool__(self) -> bool:
        """Return whether anything is archived."""
        return bool(self._runs)

    @property
    def first(self) -> int | None:
        """The first archived offset."""
        return self._runs[0][0] if self._runs else None

    @property
    def end(self) -> int:
        """The offset behind the last archived one, or 0."""
        return self._runs[-1][1] if self._runs else 0

    @property
    def parts(self) -> list[ArchivedPart]:
        """All parts, in order."""
        return list(self.within(0, self.end))

    def is_of(self, topic_id: str) -> bool:
        """Return whether no file has the id of another topic; an empty id is unknown."""
        return not topic_id or self.topic_ids <= {topic_id}

    def check_topic(self, archive: str, split: SplitId, topic_id: str) -> None:
        """Raise OptionError if the archive holds another topic of the same name.

        archive: the option and the place, such as "archive is '/lake'".
        """
        if not self.is_of(topic_id):
            raise OptionError(
                f"{archive}, which holds records of {split} when the topic had the id "
                f"{min(self.topic_ids - {topic_id})}; it was recreated as {topic_id}, and needs another place"
            )

    def check_end(self, archive: str, split: SplitId, kept: int) -> None:
        """Raise DataLossError if the archive passes the offset up to which Kafka has kept what it once had."""
        if self.end > kept:
            raise DataLossError(
                f"{archive}, which holds {split} up to offset {self.end - 1}, but Kafka has lost its records from "
                f"{kept} on, and gives their offsets to others; use another place"
            )

    def seam(self, begin: int) -> int:
        """Return the offset up to which records come from the archive; Kafka has those from ``begin`` on."""
        return next((end for start, end in self._runs if start <= begin < end), begin)

    def holes(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the stretches of a range that are not archived."""
        holes = []
        for begin, stop in [*self._runs, [end, end]]:
            if start < min(begin, end):
                holes.append((start, min(begin, end)))
            start = max(start, stop)
        return holes

    def within(self, start: int, end: int) -> Iterator[ArchivedPart]:
        """Yield the parts of a range, in order."""
        return self._parts((self._files.next > start) & (self._files.first < end), start, end)

    def with_times_from(self, time_ms: int, start: int) -> Iterator[ArchivedPart]:
        """Yield the parts from an offset on that may hold a record at or after a time, in order."""
        return self._parts((self._files.max_ms >= time_ms) & (self._files.next > start))

    def _parts(self, chosen: npt.NDArray[np.bool_], start: int = 0, end: int = _EVER) -> Iterator[ArchivedPart]:
        numbers = np.flatnonzero(chosen)
        if not len(numbers):
            return
        first, reached = self._files.first[numbers], np.maximum.accumulate(self._files.next[numbers])
        cuts = (np.flatnonzero(first[1:] >= reached[:-1]) + 1).tolist()
        for begin, stop in pairwise([0, *cuts, len(numbers)]):
            files = tuple(self._files.get(number) for number in numbers[begin:stop].tolist())
            yield ArchivedPart(max(int(first[begin]), start), min(int(reached[stop - 1]), end), files)

    def latest_ms(self, end: int, above_ms: int, accepts: Callable[[int], bool]) -> int | None:
        """Return the greatest accepted time of a record in files that end by an offset, if it is above another time.

        Without one, that is the other time.  None: the files do not say it.
        """
        files = self._files
        later = np.flatnonzero((files.max_ms > above_ms) & (files.next <= end))
        for number in later[np.argsort(-files.max_ms[later], kind="stable")].tolist():
            if not files.is_exact[number]:
                return None
            if accepts(at_ms := int(files.max_ms[number])):
                return at_ms
        return above_ms

    def bytes_within(self, start: int, end: int) -> int:
        """Return about how many bytes of files a range has."""
        files = self._files
        inside = np.minimum(files.next, end) - np.maximum(files.first, start)
        share = np.maximum(inside, 0) / np.maximum(files.next - files.first, 1)
        return int((files.size * share).sum())
