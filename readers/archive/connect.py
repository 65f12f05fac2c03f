"""The layout of Kafka Connect's S3 sink, whose names tell the first offset of each object."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
from typing_extensions import override

from tidegate.alignment.durations import epoch_ms
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.archive.layout import ArchiveLayout, Group
from tidegate.readers.archive.objects import UNKNOWN_MS, ArchivedObject
from tidegate.readers.archive.parquet import opened_parquet
from tidegate.readers.archive.place import ArchivePlace

__all__ = ["ConnectLayout"]

_NAME = re.compile(r".+\+\d+\+(\d+)\.(?:json|bin|(?:\w+\.)?parquet)", re.ASCII)
_ASIDE = re.compile(r".+\+\d+\+\d+\.(?:keys|headers)\..+", re.ASCII)
_MOST_BYTES = 256 << 20  # of an object of lines, which is read as a whole
_BATCH_ROWS = 16_384
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class ConnectLayout(ArchiveLayout):
    """Objects of the default partitioner: ``orders/partition=0/orders+0+0000000042.json``, ``.bin`` or ``.parquet``.

    An object ends where the next one begins.  So the newest of a partition is left out: Kafka has its records.  Values
    are the lines of an object, or the rows of Parquet as JSON.  Keys, headers and timestamps are null.
    """

    place: ArchivePlace

    keeps_timestamps = False

    @override
    def folder_of(self, topic: str, partition: int) -> str:
        return f"{topic}/partition={partition}"

    @override
    def objects_in(self, folder: str, files: Mapping[str, int]) -> Mapping[tuple[str, int], Collection[ArchivedObject]]:
        topic, _, partition = folder.rpartition("/partition=")
        begins = []
        for name in files:
            match = _NAME.fullmatch(name)
            if match is not None:
                begins.append((int(match[1]), name))
            elif not _ASIDE.fullmatch(name):
                raise OptionError(
                    f"archive is {self.place.location!r}, and archive.layout is 'connect', but the file "
                    f"{folder}/{name} is not named {topic}+{partition}+OFFSET with .json, .bin or .parquet"
                )
        objects = [
            ArchivedObject(f"{topic}/{partition}", files[name], first, after, -1, UNKNOWN_MS, "", f"{folder}/{name}")
            for (first, name), (after, _) in pairwise(sorted(begins))
            if first < after
        ]
        return {(topic, int(partition)): objects}

    @contextmanager
    @override
    def open(self, obj: ArchivedObject) -> Iterator[_Values]:
        if obj.path.endswith(".parquet"):
            with opened_parquet(self.place, obj.path, obj.size) as (file, _):
                self._check(obj, file.metadata.num_rows)
                batches = (
                    [json.dumps(row, default=_plain).encode() for row in batch.to_pylist()]
                    for batch in file.iter_batches(_BATCH_ROWS, use_threads=False)
                )
                yield _Values(obj, batches)
        else:
            yield _Values(obj, self._lines(obj))

    def _lines(self, obj: ArchivedObject) -> Iterator[list[bytes]]:
        """Yield the lines of an object, which is fetched when they are asked for."""
        if obj.size > _MOST_BYTES:
            raise CorruptDataError(
                f"the archived object {self.place.address(obj.path)} has {obj.size} bytes, and at most {_MOST_BYTES} "
                "are read at once; lower the connector's flush.size"
            )
        data = self.place.fetch(obj.path, obj.size, 0, obj.size)
        lines = data.removesuffix(b"\n").split(b"\n") if data else []
        self._check(obj, len(lines))
        for start in range(0, len(lines), _BATCH_ROWS):
            yield lines[start : start + _BATCH_ROWS]

    def _check(self, obj: ArchivedObject, count: int) -> None:
        if count != obj.next - obj.first:
            raise CorruptDataError(
                f"the archived object {self.place.address(obj.path)} holds {count} records, but the next object begins "
                f"{obj.next - obj.first} offsets later: compaction or transactions have left out some, or records are "
                "missing, so it does not tell the offset of each record"
            )


class _Values:
    """The values of an object, as one group; they are read once."""

    def __init__(self, obj: ArchivedObject, batches: Iterator[list[bytes]]) -> None:
        self._obj, self._batches = obj, batches
        self.groups = [Group(0, obj.first, obj.next - 1, UNKNOWN_MS)]

    def read(self, numbers: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records, if the group is asked for."""
        topic, _, partition = self._obj.folder.rpartition("/")
        first = self._obj.first
        for values in self._batches if numbers else ():
            rows = len(values)
            known = {
                "value": pa.array(values, pa.binary()),
                "topic": pa.repeat(topic, rows),
                "partition": pa.repeat(pa.scalar(int(partition), pa.int32()), rows),
                "offset": pa.array(range(first, first + rows), pa.int64()),
            }
            columns = [known[field.name] if field.name in known else pa.nulls(rows, field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            first += rows


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes, times and dates as Connect's JsonConverter writes them, others as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return epoch_ms(value)
    if isinstance(value, date):
        return (value - _EPOCH).days
    return str(value)  # such as a decimal
