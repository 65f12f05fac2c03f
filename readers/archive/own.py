"""tidegate's own layout: Kafka's columns in Parquet objects, whose names tell their offsets and times."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from typing_extensions import override

from tidegate.readers.archive.layout import COLUMNS, ArchiveLayout
from tidegate.readers.archive.objects import FOOTER_KEY, ArchivedObject, parse_name
from tidegate.readers.archive.parquet import ArchivedParquet, opened_parquet
from tidegate.readers.places.place import Place

_COLUMNS = dict(zip(COLUMNS, COLUMNS, strict=True))


@dataclass(frozen=True)
class OwnLayout(ArchiveLayout):
    """What ``tidegate archive`` writes: a listing is enough to plan."""

    place: Place

    @override
    def folder_of(self, topic: str, partition: int) -> str:
        return f"{topic}/{partition}"

    @override
    def objects_in(self, folder: str, files: Mapping[str, int]) -> Mapping[tuple[str, int], Collection[ArchivedObject]]:
        topic, _, partition = folder.rpartition("/")
        named = (parse_name(folder, name, size) for name, size in files.items())
        return {(topic, int(partition)): [obj for obj in named if obj is not None]}

    @contextmanager
    @override
    def open(self, obj: ArchivedObject) -> Iterator[ArchivedParquet]:
        with opened_parquet(self.place, obj.path, obj.size) as (file, source):
            if (file.metadata.metadata or {}).get(FOOTER_KEY.encode()) != obj.footer.encode():
                raise pa.ArrowInvalid("its footer tells of other records than its name")
            yield ArchivedParquet(file, source, obj, _COLUMNS)
