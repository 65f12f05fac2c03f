"""Which offsets of a partition an archive holds, and in which objects.  Pure logic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from tidegate.alignment.splits import SplitId
from tidegate.errors import DataLossError, OptionError
from tidegate.readers.archive.objects import ArchivedObject, ArchivedPart


def in_order(objects: Iterable[ArchivedObject]) -> list[ArchivedObject]:
    """Return objects in the order in which a directory takes their records."""
    return sorted(objects, key=lambda obj: (obj.first, -obj.next, obj.path))


class Directory:
    """The objects of one partition.

    topic_ids: the known ids of the topics whose records are archived.
    leader_epoch: no archived record is of a later leader epoch; None: unknown.

    Objects may overlap, since two archivers or a run that was killed may have copied the same records.  Then an offset
    is read from the object that begins first; of those with one beginning, from the longest.
    """

    def __init__(self, objects: Iterable[ArchivedObject] = ()) -> None:
        self.parts: list[ArchivedPart] = []
        self._runs: list[list[int]] = []  # the begin and the end of stretches without a hole
        for obj in in_order(objects):
            reached = self._runs[-1][1] if self._runs else 0
            if obj.next <= reached:
                continue
            self.parts.append(ArchivedPart(max(obj.first, reached), obj.next, obj))
            if self._runs and obj.first <= reached:
                self._runs[-1][1] = obj.next
            else:
                self._runs.append([obj.first, obj.next])
        self._starts = [part.start for part in self.parts]
        self.topic_ids = {part.obj.topic_id for part in self.parts} - {""}
        self.leader_epoch = self.parts[-1].obj.leader_epoch if self.parts else None
        self._latest_ms = list(accumulate((part.obj.max_ms for part in self.parts), max))

    @property
    def first(self) -> int | None:
        """The first archived offset."""
        return self._starts[0] if self._starts else None

    @property
    def end(self) -> int:
        """The offset behind the last archived one; 0: there is none."""
        return self._runs[-1][1] if self._runs else 0

    def is_of(self, topic_id: str) -> bool:
        """Return whether no object has the id of another topic; an empty id is unknown."""
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
        for number in range(max(0, bisect_right(self._starts, start) - 1), len(self.parts)):
            part = self.parts[number]
            if part.start >= end:
                return
            if part.end > start:
                yield ArchivedPart(max(part.start, start), min(part.end, end), part.obj)

    def with_times_from(self, time_ms: int, start: int) -> Iterator[ArchivedPart]:
        """Yield the parts from an offset on that may hold a record at or after a time, in order."""
        begin = max(bisect_right(self._latest_ms, time_ms - 1), bisect_right(self._starts, start) - 1)
        for number in range(begin, len(self.parts)):
            part = self.parts[number]
            if part.obj.max_ms >= time_ms and part.end > start:
                yield part

    def bytes_within(self, start: int, end: int) -> int:
        """Return about how many bytes of objects a range has."""
        parts = self.within(start, end)
        return sum(part.obj.size * (part.end - part.start) // (part.obj.next - part.obj.first) for part in parts)
