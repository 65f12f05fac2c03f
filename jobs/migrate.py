"""``tidegate migrate``: takes a query with Kafka sources over from Spark's built-in ones, or back to them.

It reads how far the query is, and makes a new checkpoint.  Everything is copied, except the offsets of the migrated
sources, which are written anew.  The query keeps its id, its state, its watermark and the numbers of its batches, so a
sink that knows batches by number never sees another batch under a known number.  A batch that is planned but not
written is repeated with exactly its records.

Besides the logs that every query has, the built-in source keeps the offsets with which it began:

DIR/sources/NAME/0   of one source: a byte 0, a version, and the offset as JSON

A source without a name has a number.  Spark numbers these folders by DataFrame, but the offsets in its logs by use: a
DataFrame that is used twice has one folder and two numbers.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection
from dataclasses import replace

import typer

from tidegate.alignment.plan import Progress
from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.kafka.offsets import offset_by_topic, positions_in
from tidegate.enumerators.kafka.topics import KafkaSnapshot
from tidegate.enumerators.planning.offset import BuiltInOffset, Offset, built_in_offset
from tidegate.errors import CheckpointError, ConnectorError, OptionError
from tidegate.jobs.spark_checkpoint import BatchLogs, SourceOffset, name_order, open_checkpoint
from tidegate.sources.kafka.source import KafkaSource


class KafkaQuery:
    """The checkpoint of a query with at least one Kafka source of a kind.

    goes_back: the sources are tidegate's; otherwise Spark's built-in ones.
    sources: the names of these sources, also of those that the query no longer has.
    batches: the batches that Spark needs to go on, by number: all written ones, and the one after them.
    committed: the numbers of the written ones.
    last: the last written batch, if there is one.
    uncommitted: the batch that is planned but not written, and that Spark repeats.

    Raises OptionError if the folder is not such a checkpoint, and ConnectorError if it cannot be read.
    """

    def __init__(self, folder: Folder, *, goes_back: bool = False) -> None:
        self._logged = _logged(folder)
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
                f"CHECKPOINT is {folder.address}, which is not a checkpoint with {self._kind}"
                f"{'' if goes_back else '; --back is for one with tidegate_kafka'}"
            )

    @property
    def still_runs(self) -> bool:
        """Whether Spark has planned or written a batch since the checkpoint was read."""
        return _logged(self.folder) != self._logged

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
        _, brace, remainder = ("" if stored is None else stored.data.decode(errors="replace")).partition("{")
        return SourceOffset("", brace + remainder).value


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


_LOGS = {"offsets", "commits"}


def _logged(folder: Folder) -> list[set[str]]:
    return [{*folder.within(log).files()} for log in sorted(_LOGS)]


def make_checkpoint(query: KafkaQuery, new: Folder) -> None:
    """Write the checkpoint from which the other source goes on.

    new: a folder that is empty, or does not exist.  Its offsets are written last, the newest first: if the command is
        killed, no written batch is repeated.

    Raises OptionError if the query has no batch, or if the new folder is not empty or is in the old one.  Raises
    CheckpointError if the built-in source cannot go on there, or if a batch came meanwhile.
    """
    if not query.batches:
        raise OptionError(
            f"{query.folder.address} has no batch yet; start with a new checkpoint, and with the startingOffsets that "
            "`tidegate migrate` prints without --to"
        )
    if new.files() or new.folders():
        raise OptionError(f"--to is {new.address}, which is not empty; name a new folder")
    if posixpath.normpath(new.address).startswith(f"{posixpath.normpath(query.folder.address)}/"):
        raise OptionError(f"--to is {new.address}, which is in the old checkpoint; name a folder beside it")
    texts = {
        (number, name): _migrated(query, number, name)
        for number, logged in query.batches.items()
        for name in logged.by_name.keys() & query.sources
    }
    _copy(query.folder, new, but=_LOGS)
    if query.still_runs:  # it would write the next records, too
        raise CheckpointError(
            f"the query of {query.folder.address} still runs: a batch came meanwhile; stop it, and name another --to, "
            f"because {new.address} now holds a part of the state"
        )
    commits = query.folder.within("commits")
    for number in query.committed:
        if (stored := commits.read(str(number))) is not None:
            _create(new.within("commits"), str(number), stored.data)
    # The newest comes first: otherwise Spark would repeat written batches if the command were killed here.
    for number, logged in reversed(query.batches.items()):
        sources = tuple(
            source._replace(text=texts.get((number, source.name), source.text)) for source in logged.sources
        )
        _create(new.within("offsets"), str(number), replace(logged, sources=sources).to_bytes())


def _migrated(query: KafkaQuery, number: int, name: str) -> str | None:
    """Return the offset JSON of the other source that ends a batch of a source."""
    end = query.offset(number, name)
    if not end:
        return None
    if query.goes_back:
        _check_way_back(query, number, name)
        return json.dumps(end, separators=(",", ":"))
    positions = positions_in(end)
    before = query.offset(number - 1, name)
    if before is not None:
        # The built-in source reads new partitions from offset 0.
        starts = dict.fromkeys(positions.keys() - positions_in(before).keys(), 0)
    elif number == query.uncommitted:  # the first batch of the query, or of a source that was added
        begins = positions_in(query.begin(name))
        starts = {split: begins.get(split, 0) for split in positions}
    else:
        starts = {}  # Spark never goes back to the batch before this one
    snapshot = KafkaSnapshot(taken_over_ms=query.planned_ms(number)).to_json() or None
    offset = Offset(KafkaSource.connector, Progress(positions), starts, snapshot)
    return json.dumps(offset.to_json(), separators=(",", ":"))


def _check_way_back(query: KafkaQuery, number: int, name: str) -> None:
    """Raise CheckpointError if the built-in source would repeat a batch with other records, or lacks a column."""
    after, before = query.our_offset(number, name), query.our_offset(number - 1, name)
    if after is None:
        return
    if after.add_ons:
        raise CheckpointError(
            f"source {name} has windows of tidegate.windowed, which need tidegate_kafka; write them with Spark's "
            "window(), and start with a new checkpoint"
        )
    # The built-in source reads new partitions from their beginning.
    positions = {} if before is None else before.progress.positions
    others = [split for split, start in sorted(after.starts.items()) if start != positions.get(split, 0)]
    if number == query.uncommitted and (before is None or others):
        named = f", and begins to read {others[0]} at {after.starts[others[0]]}" if others else ""
        raise CheckpointError(
            f"batch {number} is planned but not written{named}, which the built-in source cannot repeat; run the query "
            "once more with tidegate_kafka, such as with the trigger availableNow"
        )


def _copy(old: Folder, new: Folder, but: Collection[str] = ()) -> None:
    """Copy the files of a folder, and the folders in it but some."""
    for name in old.files():
        if (stored := old.read(name)) is not None:
            _create(new, name, stored.data)
    for name in old.folders():
        if name not in but:
            _copy(old.within(name), new.within(name))


def _create(folder: Folder, name: str, data: bytes) -> None:
    if folder.create(name, data) is None:
        raise ConnectorError(f"somebody else also writes to {folder.address}: {name} already exists")


def run_migrate(checkpoint: str, *, to: str | None, goes_back: bool, as_json: bool) -> None:
    """Print where the sources of a query go on, or write a checkpoint from which they go on.

    checkpoint: the checkpoint of the query: a path or ``s3://bucket/prefix``.
    to: the new checkpoint, in the same form, instead of printing the starting offsets.
    goes_back: from tidegate to Spark's built-in source.

    Raises OptionError, one sentence, if ``checkpoint`` is not such a checkpoint, or if ``to`` is not empty.
    """
    query = KafkaQuery(open_checkpoint(checkpoint, "CHECKPOINT"), goes_back=goes_back)
    standings = query.standings()
    if to is not None:
        make_checkpoint(query, open_checkpoint(to, "--to"))
    if as_json:
        batches = {"lastCommittedBatch": query.last, "uncommittedBatch": query.uncommitted}
        found = [{"source": name, **batches, "startingOffsets": offset} for name, offset in standings.items()]
        typer.echo(json.dumps(found))
        return
    where = "the query began" if query.last is None else f"batch {query.last} ended"
    for name, offset in standings.items():
        with_offsets = f", with startingOffsets\n{json.dumps(offset, separators=(',', ':'))}" if to is None else ""
        typer.echo(f"source {name} ({', '.join(offset)}) goes on where {where}{with_offsets}")
    if to is not None:
        typer.echo(
            f"start the query with the format {'' if goes_back else 'tidegate_'}kafka and the checkpointLocation {to}"
        )
    if query.uncommitted is not None:
        typer.echo(_uncommitted(query.uncommitted, keeps_numbers=to is not None), err=True)
    if to is None:
        typer.echo(
            "a new checkpoint has no state and counts its batches from 0: a sink that knows batches by their number, "
            "such as files or Delta, would take new batches for old ones; --to keeps state and numbers",
            err=True,
        )


def _uncommitted(number: int, *, keeps_numbers: bool) -> str:
    if keeps_numbers:
        return f"batch {number} is planned but not written: it is repeated with the same records"
    return (
        f"batch {number} is planned but not written: its records are read again, and those that are already in the "
        "sink come twice; --to repeats the batch under its number"
    )
