"""Reads the checkpoint of a query with Kafka sources, Spark's built-in ones or tidegate's, to learn how far it is.

Besides the logs that every query has, the built-in source keeps the offsets with which it began:

DIR/sources/NAME/0   of one source: a byte 0, a version, and the offset as JSON

A source without a name has a number.  Spark numbers these folders by DataFrame, but the offsets in its logs by use: a
DataFrame that is used twice has one folder and two numbers.
"""

from __future__ import annotations

from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.kafka.built_in import offset_by_topic
from tidegate.enumerators.planning.offset import BuiltInOffset, Offset, built_in_offset
from tidegate.errors import CheckpointError, OptionError
from tidegate.jobs.spark_checkpoint import BatchLogs, SourceOffset, name_order
from tidegate.sources.kafka.source import KafkaSource


class KafkaQuery:
    """The checkpoint of a query with at least one Kafka source of a kind.

    goes_back: the sources are tidegate's; otherwise Spark's built-in ones.
    sources: the names of these sources, also of those that the query no longer has.
    batches: the batches that Spark needs to go on, by number: all written ones, and the one after them.
    committed: the numbers of the written ones.
    last: the last written batch, if there is one.
    uncommitted: the batch that is planned but not written, and that Spark repeats.

    Raises OptionError if the folder is no such checkpoint, and ConnectorError if it cannot be read.
    """

    def __init__(self, folder: Folder, *, goes_back: bool = False) -> None:
        self.folder, self.goes_back, logs = folder, goes_back, BatchLogs.read(folder)
        self._read = _our_offset if goes_back else built_in_offset
        self._kind = "tidegate_kafka" if goes_back else "Spark's built-in Kafka source"
        self.committed = sorted(logs.written)
        self.last = max(self.committed, default=None)
        following = 0 if self.last is None else self.last + 1
        self.uncommitted = following if following in logs.offsets else None
        self.batches = {number: logged for number, logged in logs.offsets.items() if number <= following}
        self._begins = {name: self._begin(name) for name in folder.within("sources").folders()}
        self._newest = self.batches[max(self.batches)].by_name if self.batches else {}
        logged = [offset for batch in self.batches.values() for offset in batch.sources]
        offsets = [(offset.name, offset.value) for offset in logged] if self.batches else [*self._begins.items()]
        self.sources = sorted({name for name, value in offsets if self._read(value) is not None}, key=name_order)
        without = [name for name, value in offsets if value == {}]
        if not self.sources and without:
            raise OptionError(
                f"CHECKPOINT is {folder.address}, and its source {without[0]} has found no topic yet, so there is no "
                "offset to go on from: begin with a new checkpoint and startingOffsets=earliest"
            )
        if not self.sources:
            raise OptionError(
                f"CHECKPOINT is {folder.address}, which is no checkpoint with {self._kind}"
                f"{'' if goes_back else '; --back is for one with tidegate_kafka'}"
            )

    def standings(self) -> dict[str, BuiltInOffset]:
        """Return the offset of each source after the last written batch, or the one with which it began.

        A source that the query no longer has is left out.

        Raises CheckpointError if a source is in no written batch, and the checkpoint does not say where it began.
        """
        names = [name for name in self.sources if name in self._newest or not self.batches]
        at = {name: None if self.last is None else self.offset(self.last, name) for name in names}
        return {name: self.begin(name) if offset is None else offset for name, offset in at.items()}

    def offset(self, number: int, name: str) -> BuiltInOffset | None:
        """Return the offset of a source after a batch, if it has one that Spark has not deleted."""
        source = self.batches[number].by_name.get(name) if number in self.batches else None
        return None if source is None else self._read(source.value)

    def our_offset(self, number: int, name: str) -> Offset | None:
        """Return the offset of a source of tidegate after a batch, if it has one that Spark has not deleted."""
        return self.batches[number].ours(name) if number in self.batches else None

    def planned_ms(self, number: int) -> int | None:
        """Return when Spark planned a batch, in ms since the epoch, if the checkpoint says it."""
        at_ms = self.batches[number].notes.get("batchTimestampMs")
        return at_ms if type(at_ms) is int else None

    def begin(self, name: str) -> BuiltInOffset:
        """Return the offset with which a source began.  Raises CheckpointError if the checkpoint does not say it."""
        if self.goes_back:
            first = next((at for number in self.batches if (at := self.our_offset(number, name)) is not None), None)
            return offset_by_topic({} if first is None else first.starts)
        begins = {n: offset for n, value in self._begins.items() if (offset := built_in_offset(value)) is not None}
        if name in begins and not name.isdecimal():
            return begins[name]
        ends = {n: self.offset(min(self.batches, default=0), n) for n in self.sources}
        if all(_may_begin(begins.get(n), end) for n, end in ends.items()):
            return begins[name]  # no DataFrame is used twice
        fitting = [begin for begin in begins.values() if _may_begin(begin, ends[name])]
        if not fitting or any(begin != fitting[0] for begin in fitting):
            raise CheckpointError(
                f"{self.folder.address} does not say where source {name} began: "
                f"sources/{name}/0 is missing or damaged, or several of sources/ fit"
            )
        return fitting[0]

    def _begin(self, name: str) -> object:
        stored = self.folder.within("sources").within(name).read("0")
        _, brace, rest = ("" if stored is None else stored.data.decode(errors="replace")).partition("{")
        return SourceOffset("", brace + rest).value


def _our_offset(value: object) -> BuiltInOffset | None:
    offset = Offset.recognized(value)
    if offset is None or offset.source != KafkaSource.connector:
        return None
    return offset_by_topic(offset.progress.positions)


def _may_begin(begin: BuiltInOffset | None, end: BuiltInOffset | None) -> bool:
    """Return whether a source may have begun at one offset, and ended a batch at another, if it has one."""
    if begin is None or end is None:
        return begin is not None
    return all(at <= end.get(topic, {}).get(p, -1) for topic, starts in begin.items() for p, at in starts.items())
