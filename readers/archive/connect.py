"""The layout of Kafka Connect's S3 sink, whose names tell the first offset of each object.

Its files hold values, keys or headers of records, as lines, Parquet or Avro.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
from typing_extensions import override

from tidegate.alignment.durations import epoch_ms
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.archive.layout import ArchiveLayout, Group
from tidegate.readers.archive.objects import UNKNOWN_MS, ArchivedObject
from tidegate.readers.archive.parquet import opened_parquet
from tidegate.readers.avro.container import blocks_of, read_header
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.decompression import SizeLimit
from tidegate.readers.places.place import Place

_NAME = re.compile(
    r".+\+\d+\+(?P<offset>\d+)(?:\.(?P<aside>keys|headers))?\.(?:json|bin|avro|(?:\w+\.)?parquet)", re.ASCII
)
_COLUMNS = {"keys": "key", "headers": "headers"}
_MOST_BYTES = 256 << 20  # of a file that is not Parquet, which is read as a whole
_BOUND = SizeLimit(_MOST_BYTES, "nothing: no record may be so large")
_BATCH_ROWS = 16_384
_EPOCH = date(1970, 1, 1)
_WHOLE = "tidegate_whole"
_MISFITS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


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


def items_in(place: Place, path: str, size: int, count: int, column: str) -> Iterator[Any]:
    """Yield what a file holds of each record, as the column has it.

    count: how many records it must have.
    column: ``value``: lines and texts come as they are, and others as JSON; ``key``: so do they, but texts in JSON come
        without quotes; ``headers``.

    Raises CorruptDataError, before the first item if their number is another one, and the errors of
    ``Place.fetch``.
    """
    convert = {"value": _as_bytes, "key": _key, "headers": _headers}[column]
    address = place.address(path)
    if not path.endswith(".parquet") and size > _MOST_BYTES:
        raise CorruptDataError(
            f"the archived object {address} has {size} bytes, and at most {_MOST_BYTES} are read at once; "
            "lower the connector's flush.size"
        )
    with _named(address):
        yield from map(convert, _items(place, path, size, count))


def _items(place: Place, path: str, size: int, count: int) -> Iterator[Any]:
    """Yield the bytes of each line, or what Parquet or Avro holds of each record."""
    if path.endswith(".parquet"):
        with opened_parquet(place, path, size) as (file, _):
            _check(file.metadata.num_rows, count)
            for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                yield from batch.to_pylist(maps_as_pydicts="lossy")
        return
    data = place.fetch(path, size, 0, size)
    if path.endswith(".avro"):
        yield from _of_avro(data, count)
        return
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    _check(len(lines), count)
    yield from lines


def _of_avro(data: bytes, count: int) -> Iterator[Any]:
    def fetch(start: int, end: int) -> bytes:
        return data[start:end]

    header = read_header(fetch, len(data))
    blocks = partial(blocks_of, fetch, len(data), header, 0, len(data), request_bytes=len(data), bound=_BOUND)
    _check(sum(block.rows for block in blocks()), count)
    # A record of one field has the bytes of the field, which may be no record itself.
    records = AvroRecords({"type": "record", "name": _WHOLE, "fields": [{"name": "it", "type": header.schema}]}, _BOUND)
    for batch in records.batches(blocks(), ["it"]):
        yield from batch.column(0).to_pylist(maps_as_pydicts="lossy")


def _check(found: int, count: int) -> None:
    if found != count:
        raise CorruptDataError(
            f"it holds {found} records, but the next object begins {count} offsets later: compaction or transactions "
            "have left out some, or records are missing, so it does not tell the offset of each record"
        )


@contextmanager
def _named(address: str) -> Iterator[None]:
    try:
        yield
    except CorruptDataError as problem:
        if address in str(problem):
            raise
        raise CorruptDataError(f"the archived object {address} cannot be read: {problem}") from None
    except _MISFITS as problem:
        raise CorruptDataError(f"the archived object {address} has another form than Connect writes") from problem


def _key(item: Any) -> bytes | None:
    if isinstance(item, dict) and item.keys() == {"key"}:  # Parquet has no values but records
        return _as_bytes(item["key"])
    return _as_bytes(json.loads(item) if isinstance(item, bytes) and item.startswith(b'"') else item)


def _headers(item: Any) -> list[dict[str, Any]]:
    found = json.loads(item) if isinstance(item, bytes) else item
    listed = found["headers"] if isinstance(found, dict) else found
    return [{"key": header["key"], "value": _as_bytes(header["value"])} for header in listed]


def _as_bytes(item: Any) -> bytes | None:
    if item is None or isinstance(item, bytes):
        return item
    return item.encode() if isinstance(item, str) else json.dumps(item, default=_plain).encode()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes, times and dates as Connect's JsonConverter writes them, others as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return epoch_ms(value)
    if isinstance(value, date):
        return (value - _EPOCH).days
    return str(value)  # such as a decimal
