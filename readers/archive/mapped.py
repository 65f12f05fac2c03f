"""The layout of other writers: Parquet objects with Kafka's columns, under any names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from typing_extensions import override

from tidegate.errors import ObjectGoneError
from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.parquet import (
    COLUMNS,
    ParquetObject,
    bounds_of,
    latest_of,
    leaves_of,
    opened_parquet,
)
from tidegate.readers.archive.place import ArchivePlace
from tidegate.readers.objects.partitions import partition_texts

__all__ = ["MappedLayout"]

_THREADS = 8


@dataclass(frozen=True)
class MappedLayout(ArchiveLayout):
    """Objects anywhere in the archive, each with the records of one partition, in the order of their offsets.

    given: names of columns by Kafka's names; None: the archive does not keep it.  Others have Kafka's names.  Topic and
        partition may also be folders, such as ``topic=orders/partition=0``.

    Footers tell offsets and times.  Each is read once.  A missing offset inside an object is taken for one without a
    record, such as a transaction marker; one between objects is missing.
    """

    place: ArchivePlace
    given: Mapping[str, str | None] = field(default_factory=dict)
    _seen: dict[tuple[str, int], ArchivedObject | None] = field(default_factory=dict, compare=False, repr=False)

    is_nested = True

    def __reduce__(self) -> Any:
        return type(self), (self.place, self.given)

    @property
    def keeps_timestamps(self) -> bool:  # type: ignore[override]
        """Whether there is a column of timestamps."""
        return self._columns["timestamp"] is not None

    @property
    def _columns(self) -> dict[str, str | None]:
        return {**dict(zip(COLUMNS, COLUMNS, strict=True)), **self.given}

    @override
    def folder_of(self, topic: str, partition: int) -> str:
        return ""

    @override
    def objects_in(self, folder: str, files: Mapping[str, int]) -> Mapping[tuple[str, int], Collection[ArchivedObject]]:
        listed = [(path, size) for path, size in files.items() if _is_parquet(path)]
        with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
            new = [file for file in listed if file not in self._seen]
            self._seen.update(zip(new, threads.map(lambda file: self._object(*file), new), strict=True))
        objects: dict[tuple[str, int], list[ArchivedObject]] = {}
        for file in listed:
            if (obj := self._seen[file]) is not None:
                topic, _, partition = obj.folder.rpartition("/")
                objects.setdefault((topic, int(partition)), []).append(obj)
        return objects

    def _object(self, path: str, size: int) -> ArchivedObject | None:
        """Return what a footer tells of an object; None: it has no records, or is gone."""
        columns, folders = self._columns, partition_texts(path, "")
        with suppress(ObjectGoneError), opened_parquet(self.place, path, size) as (file, _):
            metadata = file.metadata
            leaves = leaves_of(metadata)
            offset, timestamp = (leaves.get(columns[name] or "") for name in ("offset", "timestamp"))
            groups = [n for n in range(metadata.num_row_groups) if metadata.row_group(n).num_rows]
            if not groups:
                return None
            told = {}
            for name in ("topic", "partition"):
                named = columns[name] or ""
                bounds = [bounds_of(metadata, n, leaves.get(named)) for n in groups if named not in folders]
                values = {str(value) for pair in bounds for value in pair} or {str(folders[named])}
                if len(values) > 1 or (name == "partition" and not min(values).isdecimal()):
                    raise pa.ArrowInvalid(f"its {name} is {' and '.join(sorted(values))}, and one {name} is expected")
                told[name] = values.pop()
            offsets = [bounds_of(metadata, n, offset) for n in groups]
            first, last = min(low for low, _ in offsets), max(high for _, high in offsets)
            latest = max(latest_of(metadata, n, timestamp) for n in groups)
            return ArchivedObject(f"{told['topic']}/{told['partition']}", size, first, last + 1, -1, latest, "", path)
        return None

    @contextmanager
    @override
    def open(self, obj: ArchivedObject) -> Iterator[ParquetObject]:
        with opened_parquet(self.place, obj.path, obj.size) as (file, source):
            yield ParquetObject(file, source, obj, self._columns)


def _is_parquet(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".parquet") and not name.startswith(("_", "."))
