"""The layout of other writers: Parquet objects with Kafka's columns, under any names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from typing_extensions import override

from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.archive.layout import COLUMNS, ArchiveLayout
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.parquet import (
    ArchivedParquet,
    bounds_of,
    latest_of,
    leaves_of,
    offsets_of,
    opened_parquet,
)
from tidegate.readers.objects.partitions import is_hidden, partition_texts
from tidegate.readers.places.place import Place

_THREADS = 8


class _Seen(NamedTuple):
    """An object, and how many records it has."""

    obj: ArchivedObject
    rows: int


@dataclass(frozen=True)
class MappedLayout(ArchiveLayout):
    """Objects anywhere in the archive, each with the records of one partition, in the order of their offsets.

    given: names of columns by Kafka's names; None: the archive does not keep it.  Others have Kafka's names.  Topic and
        partition may also be folders, such as ``topic=orders/partition=0``.

    Footers tell offsets and times.  Each is read once.  A missing offset inside an object is taken for one without a
    record, such as a transaction marker; one between objects is missing.  So an object that overlaps another one must
    miss none, or be its copy.
    """

    place: Place
    given: Mapping[str, str | None] = field(default_factory=dict)
    _seen: dict[tuple[str, int], _Seen | None] = field(default_factory=dict, compare=False, repr=False)

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
        found: dict[tuple[str, int], list[_Seen]] = {}
        for file in listed:
            if (seen := self._seen[file]) is not None:
                topic, _, partition = seen.obj.folder.rpartition("/")
                found.setdefault((topic, int(partition)), []).append(seen)
        for of_partition in found.values():
            self._check_overlaps(of_partition)
        return {partition: [seen.obj for seen in of_partition] for partition, of_partition in found.items()}

    def _check_overlaps(self, found: list[_Seen]) -> None:
        """Raise CorruptDataError for an object that is read in place of one with records that it may lack."""
        in_order = sorted(found, key=lambda seen: (seen.obj.first, -seen.obj.next))
        for (one, rows), (other, other_rows) in pairwise(in_order):
            is_copy = (one.first, one.next, rows) == (other.first, other.next, other_rows)
            if other.first < one.next and rows < one.next - one.first and not is_copy:
                raise CorruptDataError(
                    f"the archived objects {self.place.address(one.path)} and {other.path} overlap, and the first one "
                    "misses offsets that the other may hold; merge them, in the order of their offsets"
                )

    def _object(self, path: str, size: int) -> _Seen | None:
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
                values = {_text(value) for pair in bounds for value in pair} or {str(folders[named])}
                if len(values) > 1 or (name == "partition" and not min(values).isdecimal()):
                    raise pa.ArrowInvalid(f"its {name} is {' and '.join(sorted(values))}, and one {name} is expected")
                told[name] = values.pop()
            offsets = [offsets_of(metadata, n, offset) for n in groups]
            first, last = min(low for low, _ in offsets), max(high for _, high in offsets)
            latest = max(latest_of(metadata, n, timestamp) for n in groups)
            folder = f"{told['topic']}/{told['partition']}"
            return _Seen(ArchivedObject(folder, size, first, last + 1, -1, latest, "", path), metadata.num_rows)
        return None

    @contextmanager
    @override
    def open(self, obj: ArchivedObject) -> Iterator[ArchivedParquet]:
        with opened_parquet(self.place, obj.path, obj.size) as (file, source):
            yield ArchivedParquet(file, source, obj, self._columns)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _is_parquet(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".parquet") and not is_hidden(name)
