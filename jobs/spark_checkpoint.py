"""Reads the offsets of a source from the checkpoint of its query, batch by batch.

DIR/offsets/17    the end of batch 17 for each source of the query, stored before the batch is read
DIR/commits/17    there when the batch is written
DIR/metadata      the id of the query

Spark keeps about the last hundred.  Each offset is a line, after a version and Spark's own notes.  Version 1 of the
file has the lines in the order of the query's sources.  Version 2 has them in any order, and puts a name and a colon
before each offset: the name that ``DataStreamReader.name()`` gave the source, or its place in the query.  A ``-`` means
that the source has no offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.notes.folder import parsed
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import CheckpointError
from tidegate.readers.s3.config import S3ConnectionConfig

_HEADER_LINES = 2
_VERSIONS = ("v1", "v2")
_WITH_NAMES = "v2"
_NO_OFFSET = "-"
_BOTO3_FINDS_IT = S3ConnectionConfig()


def open_checkpoint(location: str, option: str, config: S3ConnectionConfig = _BOTO3_FINDS_IT) -> Folder:
    """Return the folder of a checkpoint, a path or ``s3://bucket/prefix``; it need not exist.

    Raises OptionError for any other location.
    """
    return open_folder(location, config, option=option, noun="checkpoint")


def query_id(folder: Folder) -> str | None:
    """Return the id of the query of a checkpoint, a UUID.  Raises ConnectorError if the folder cannot be read."""
    stored = folder.read("metadata")
    notes = None if stored is None else parsed(stored.data)
    with suppress(ValueError):
        return None if notes is None else str(UUID(str(notes.get("id"))))
    return None


class SourceOffset(NamedTuple):
    """The offset of one source after a batch, usually JSON, and the source's name."""

    name: str
    text: str | None

    @property
    def value(self) -> Any:
        """The offset as JSON, if there is one and it is JSON."""
        try:
            return None if self.text is None else json.loads(self.text)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class LoggedOffsets:
    """A file of ``offsets/``: the version and Spark's own notes, and offsets in the order of the query's sources."""

    header: tuple[str, ...]
    sources: tuple[SourceOffset, ...]

    @classmethod
    def parse(cls, data: bytes, address: str) -> LoggedOffsets:
        """Read a file.  Raises CheckpointError, which names its address, if Spark's own part of it is damaged."""
        lines = data.decode(errors="replace").split("\n")
        header, remainder = tuple(lines[:_HEADER_LINES]), lines[_HEADER_LINES:]
        if header[0] not in _VERSIONS or type(cls(header, ()).notes.get("batchWatermarkMs")) is not int:
            raise CheckpointError(
                f"{address} is damaged: it does not begin with a version that this tidegate reads "
                f"({' or '.join(_VERSIONS)}) and Spark's notes on the batch"
            )
        sources = []
        for place, line in enumerate(filter(None, remainder)):
            name, _, text = line.partition(":") if header[0] == _WITH_NAMES else (str(place), "", line)
            sources.append(SourceOffset(name, None if text == _NO_OFFSET else text))
        return cls(header, tuple(sources))

    @property
    def notes(self) -> dict[str, Any]:
        """Spark's own notes, such as ``batchTimestampMs`` and ``batchWatermarkMs``; empty if they cannot be read."""
        return parsed(self.header[-1]) or {}

    @property
    def watermark_ms(self) -> int:
        """Spark's watermark, behind which the batch drops rows, or 0 before the first."""
        return int(self.notes["batchWatermarkMs"])

    @property
    def by_name(self) -> dict[str, SourceOffset]:
        """The offsets by the names of the sources, in the order of the query as far as names are places.

        A DataFrame that is used twice has two places.  Version 2 names only the last of them.
        """
        return {offset.name: offset for offset in sorted(self.sources, key=lambda offset: name_order(offset.name))}

    def ours(self, name: str) -> Offset | None:
        """Return the offset of a source of tidegate.

        Raises CheckpointError for one of another version of tidegate.
        """
        source = self.by_name.get(name)
        return None if source is None else Offset.recognized(source.value)

    def to_bytes(self) -> bytes:
        """Return the file in Spark's format."""
        texts = [(offset.name, _NO_OFFSET if offset.text is None else offset.text) for offset in self.sources]
        has_names = self.header[0] == _WITH_NAMES
        lines = [f"{name}:{text}" if has_names else text for name, text in texts]
        return "\n".join([*self.header, *lines]).encode()


def name_order(name: str) -> tuple[bool, int, str]:
    """Return the key by which names of sources are sorted: places first, as numbers."""
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch of a source, and whether it is written; at most one is not, and Spark repeats it."""

    number: int
    end: Offset
    is_committed: bool


@dataclass(frozen=True, slots=True)
class BatchLogs:
    """The two logs of a checkpoint.

    offsets: the offsets after each batch that is planned, and that Spark has not deleted, in the order of batches.
    committed: the numbers of the written batches.
    """

    offsets: Mapping[int, LoggedOffsets]
    committed: Collection[int]

    @classmethod
    def read(cls, folder: Folder) -> BatchLogs:
        """Read the logs of a ``checkpointLocation``, which need not exist.

        Raises ConnectorError if it cannot be read, and CheckpointError if it is damaged.
        """
        committed, log = _numbers(folder.within("commits")), folder.within("offsets")
        stored = {number: log.read(str(number)) for number in sorted(_numbers(log))}
        parsed = {
            number: LoggedOffsets.parse(file.data, f"{log.address}/{number}") for number, file in stored.items() if file
        }
        return cls(parsed, committed)

    @property
    def written(self) -> dict[int, LoggedOffsets]:
        """The offsets after each written batch."""
        return {number: logged for number, logged in self.offsets.items() if number in self.committed}

    @property
    def skipped(self) -> set[int]:
        """The batches that Spark's offline repartition of state gave up: their rows come again in a later batch.

        With ``enforceExactlyOnceSink=false`` it commits a batch that had failed, and plans the next one to end where
        the batch before it had ended.
        """
        logs, skipped = self.offsets, set[int]()
        for number, logged in logs.items():
            before, after = logs.get(number - 1), logs.get(number + 1)
            if before is not None and after is not None and number - 1 not in skipped:
                skipped |= {number} if before.by_name == after.by_name != logged.by_name else set()
        return skipped

    def of_source(self, is_wanted: Callable[[Offset], bool]) -> list[LoggedBatch]:
        """Return the batches of one source, which is selected by its offset.

        Raises CheckpointError for an offset of another version of tidegate.
        """
        batches = []
        for number, logged in self.offsets.items():
            ends = [Offset.recognized(source.value) for source in logged.sources]
            end = next((end for end in ends if end is not None and end.source and is_wanted(end)), None)
            if end is not None:
                batches.append(LoggedBatch(number, end, number in self.committed))
        return batches


def _numbers(folder: Folder) -> set[int]:
    return {int(name) for name in folder.files() if name.isdecimal()}
