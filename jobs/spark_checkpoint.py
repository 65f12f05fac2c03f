"""Reads the offsets of a source from the checkpoint of its query, batch by batch.

DIR/offsets/17    the end of batch 17 for each source of the query, stored before the batch is read
DIR/commits/17    there when the batch is written
DIR/metadata      the id of the query

Spark keeps about the last hundred.  Each offset is a line, after a version and Spark's own notes.  Version 2 of the
file puts the source's name and a colon before each offset.  A ``-`` means that the source has no offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.planning.offset import Offset
from tidegate.readers.s3.config import S3ConnectionConfig

_HEADER_LINES = 2
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
    with suppress(ValueError, TypeError, KeyError):
        return None if stored is None else str(UUID(str(json.loads(stored.data)["id"])))
    return None


class SourceOffset(NamedTuple):
    """The offset of one source after a batch, usually JSON, and its name with a colon if the file has names."""

    name: str
    text: str | None

    @property
    def value(self) -> Any:
        """The offset as JSON, if there is one and it is JSON."""
        try:
            return None if self.text is None else json.loads(self.text)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class LoggedOffsets:
    """A file of ``offsets/``: the version and Spark's own notes, and offsets in the order of the query's sources."""

    header: tuple[str, ...]
    sources: tuple[SourceOffset, ...]

    @classmethod
    def parse(cls, data: bytes) -> LoggedOffsets:
        """Read a file."""
        lines = data.decode(errors="replace").split("\n")
        header, rest = tuple(lines[:_HEADER_LINES]), lines[_HEADER_LINES:]
        sources = []
        for line in filter(None, rest):
            name, colon, text = line.partition(":") if header[0] == _WITH_NAMES else ("", "", line)
            sources.append(SourceOffset(name + colon, None if text == _NO_OFFSET else text))
        return cls(header, tuple(sources))

    @property
    def notes(self) -> dict[str, Any]:
        """Spark's own notes, such as ``batchTimestampMs`` and ``batchWatermarkMs``; empty if they cannot be read."""
        with suppress(ValueError):
            if isinstance(notes := json.loads(self.header[-1]), dict):
                return notes
        return {}

    @property
    def by_place(self) -> dict[int, SourceOffset]:
        """The offsets by the place of the source in the query, in the order of the file.

        A DataFrame that is used twice has two places.  Version 2 names only the last of them.
        """
        return {
            int(offset.name[:-1]) if offset.name[:-1].isdecimal() else line: offset
            for line, offset in enumerate(self.sources)
        }

    def ours(self, place: int) -> Offset | None:
        """Return the offset of a source of tidegate.

        Raises CheckpointError for one of another version of tidegate.
        """
        source = self.by_place.get(place)
        return None if source is None else Offset.recognized(source.value)

    def to_bytes(self) -> bytes:
        """Return the file in Spark's format."""
        lines = [offset.name + (_NO_OFFSET if offset.text is None else offset.text) for offset in self.sources]
        return "\n".join([*self.header, *lines]).encode()


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

        Raises ConnectorError if it cannot be read.
        """
        committed, log = _numbers(folder.within("commits")), folder.within("offsets")
        stored = {number: log.read(str(number)) for number in sorted(_numbers(log))}
        return cls({number: LoggedOffsets.parse(file.data) for number, file in stored.items() if file}, committed)

    @property
    def written(self) -> dict[int, LoggedOffsets]:
        """The offsets after each written batch."""
        return {number: logged for number, logged in self.offsets.items() if number in self.committed}

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
