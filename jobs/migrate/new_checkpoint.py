"""Makes a checkpoint for tidegate from a checkpoint of Spark's built-in Kafka source.

Everything is copied, except the offsets of the migrated sources: these are written anew.  So the query keeps its id,
its state, its watermark and the numbers of its batches.  A sink that knows batches by number never sees another batch
under a known number.  A batch that is planned but not written is repeated with exactly its records.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator
from dataclasses import replace

from tidegate.alignment.plan import Progress
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.kafka.built_in import positions_in
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import ConnectorError, OptionError
from tidegate.jobs.migrate.built_in_query import BuiltInQuery
from tidegate.sources.kafka.source import KafkaSource

__all__ = ["make_checkpoint"]

_LOGS = {"offsets", "commits"}


def make_checkpoint(query: BuiltInQuery, places: Collection[int], new: Folder) -> None:
    """Write the checkpoint from which ``tidegate_kafka`` goes on.

    places: the places of the migrated sources.
    new: a folder that is empty, or does not exist.  Its offsets are written last, the newest first: if the command is
        killed, no written batch is repeated.

    Raises OptionError if the query has no batch, or if the new folder is not empty or is in the old one.
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
    for names, data in _files(query.folder):
        _write(new, names, data)
    for number in sorted(query.committed.intersection(query.batches)):
        stored = query.folder.within("commits").read(str(number))
        if stored is not None:
            _write(new, ("commits", str(number)), stored.data)
    # The newest comes first: otherwise Spark would repeat written batches if the command were killed here.
    for number in reversed(query.batches):
        logged = query.logs.offsets(number)
        if logged is not None:
            sources = tuple(
                source._replace(text=_migrated(query, number, place)) if place in places else source
                for place, source in logged.by_place.items()
            )
            _write(new, ("offsets", str(number)), replace(logged, sources=sources).to_bytes())


def _migrated(query: BuiltInQuery, number: int, place: int) -> str | None:
    """Return the offset JSON of tidegate that ends a batch of a source."""
    end = query.offset(number, place)
    if end is None:
        return None
    positions = positions_in(end)
    before = query.offset(number - 1, place)
    if before is not None:
        # The built-in source reads new partitions from offset 0.
        starts = dict.fromkeys(positions.keys() - positions_in(before).keys(), 0)
    elif query.uncommitted == 0:
        begins = positions_in(query.begin(place))
        starts = {split: begins.get(split, 0) for split in positions}
    else:
        starts = {}  # Spark never goes back to the batch before this one
    return json.dumps(Offset(KafkaSource.connector, Progress(positions), starts).to_json(), separators=(",", ":"))


def _files(folder: Folder, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield the files that are copied unchanged, with the names of their folders."""
    for name in folder.files():
        stored = folder.read(name)
        if stored is not None:
            yield (*above, name), stored.data
    for name in folder.folders():
        if above or name not in _LOGS:
            yield from _files(folder.within(name), (*above, name))


def _write(folder: Folder, names: tuple[str, ...], data: bytes) -> None:
    for name in names[:-1]:
        folder = folder.within(name)
    if folder.create(names[-1], data) is None:
        raise ConnectorError(f"somebody else also writes to {folder.address}: {names[-1]} already exists")
