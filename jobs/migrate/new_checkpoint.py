"""Makes a checkpoint for tidegate from a checkpoint of Spark's built-in Kafka source, and the other way round.

Everything is copied, except the offsets of the migrated sources: these are written anew.  So the query keeps its id,
its state, its watermark and the numbers of its batches.  A sink that knows batches by number never sees another batch
under a known number.  A batch that is planned but not written is repeated with exactly its records.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection
from dataclasses import replace

from tidegate.alignment.plan import Progress
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.kafka.built_in import positions_in
from tidegate.enumerators.kafka.snapshot import KafkaSnapshot
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import CheckpointError, ConnectorError, OptionError
from tidegate.jobs.migrate.kafka_query import KafkaQuery
from tidegate.sources.kafka.source import KafkaSource

_LOGS = {"offsets", "commits"}


def make_checkpoint(query: KafkaQuery, new: Folder) -> None:
    """Write the checkpoint from which the other source goes on.

    new: a folder that is empty, or does not exist.  Its offsets are written last, the newest first: if the command is
        killed, no written batch is repeated.

    Raises OptionError if the query has no batch, or if the new folder is not empty or is in the old one.  Raises
    CheckpointError if the built-in source cannot go on there.
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
