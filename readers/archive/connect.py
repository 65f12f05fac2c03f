"""The layout of Kafka Connect's S3 sink, whose names tell the first offset of each object."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
from typing_extensions import override

from tidegate.errors import OptionError
from tidegate.readers.archive.connect_files import items_in
from tidegate.readers.archive.layout import ArchiveLayout, Group
from tidegate.readers.archive.objects import UNKNOWN_MS, ArchivedObject
from tidegate.readers.places.place import Place

_NAME = re.compile(
    r".+\+\d+\+(?P<offset>\d+)(?:\.(?P<aside>keys|headers))?\.(?:json|bin|avro|(?:\w+\.)?parquet)", re.ASCII
)
_COLUMNS = {"keys": "key", "headers": "headers"}
_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class ConnectLayout(ArchiveLayout):
    """Objects of the default partitioner: ``orders/partition=0/orders+0+0000000042.avro``, ``.json`` and others.

    An object ends where the next one begins.  So the newest of a partition is left out: Kafka has its records.  Keys
    and headers are in objects beside it, such as ``orders+0+0000000042.keys.avro``; without those, they are null.
    Timestamps are null.
    """

    place: Place

    keeps_timestamps = False

    @override
    def folder_of(self, topic: str, partition: int) -> str:
        return f"{topic}/partition={partition}"

    @override
    def objects_in(self, folder: str, files: Mapping[str, int]) -> Mapping[tuple[str, int], Collection[ArchivedObject]]:
        topic, _, partition = folder.rpartition("/partition=")
        begins: list[tuple[int, str]] = []
        aside: dict[int, list[tuple[str, str, int]]] = {}
        for name, size in files.items():
            match = _NAME.fullmatch(name)
            if match is None:
                raise OptionError(
                    f"archive is {self.place.location!r}, and archive.layout is 'connect', but the file "
                    f"{folder}/{name} is not named {topic}+{partition}+OFFSET with .json, .avro, .parquet or .bin"
                )
            first = int(match["offset"])
            if match["aside"] is None:
                begins.append((first, name))
            else:
                aside.setdefault(first, []).append((_COLUMNS[match["aside"]], f"{folder}/{name}", size))
        objects = [
            ArchivedObject(
                f"{topic}/{partition}",
                files[name],
                first,
                after,
                -1,
                UNKNOWN_MS,
                "",
                f"{folder}/{name}",
                tuple(aside.get(first, ())),
            )
            for (first, name), (after, _) in pairwise(sorted(begins))
            if first < after
        ]
        return {(topic, int(partition)): objects}

    @contextmanager
    @override
    def open(self, obj: ArchivedObject) -> Iterator[_Records]:
        yield _Records(self.place, obj)


class _Records:
    """The records of an object, as one group; the files are fetched when they are asked for."""

    def __init__(self, place: Place, obj: ArchivedObject) -> None:
        self._place, self._obj = place, obj
        self.groups = [Group(0, obj.first, obj.next - 1, UNKNOWN_MS)]

    def read(self, numbers: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records, if the group is asked for."""
        obj, count = self._obj, self._obj.next - self._obj.first
        topic, _, partition = obj.folder.rpartition("/")
        files = [("value", obj.path, obj.size), *obj.aside]
        items = {
            column: items_in(self._place, path, size, count, column)
            for column, path, size in files
            if column in schema.names
        }
        for first in range(obj.first, obj.next, _BATCH_ROWS) if numbers else ():
            rows = min(_BATCH_ROWS, obj.next - first)
            known: dict[str, Any] = {name: [*islice(of, rows)] for name, of in items.items()}
            known["topic"], known["partition"] = [topic] * rows, [int(partition)] * rows
            known["offset"] = range(first, first + rows)
            columns = [
                pa.array(known[field.name], field.type) if field.name in known else pa.nulls(rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
