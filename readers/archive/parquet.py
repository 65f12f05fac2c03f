"""tidegate's own archive: Kafka's columns in Parquet objects, whose names hold their offsets and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from tidegate.errors import CorruptDataError
from tidegate.readers.archive.archive import Archive, Group, between
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import BATCH_BYTES, MOST_ROWS, int64_values
from tidegate.readers.formats.parquet import column_ranges, row_bytes
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES
from tidegate.readers.places.place import Place

FOOTER_KEY = b"tidegate.archive"
"""The key of an object's path in the metadata of its file."""

_MICROSECONDS = 1000  # in a millisecond
GROUP_BYTES = 4 << 20  # of decoded records in a row group, which is read as a whole, even if a range ends in it
_IN_ORDER = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_REPEATED = ["topic", "partition", "timestampType"]
_IN_FOOTER = ["topic", "partition", "offset", "timestamp"]  # extremes of keys and values would only make it larger


@dataclass(frozen=True)
class ParquetObjects(Archive):
    """Reads what ``tidegate archive`` writes."""

    place: Place

    @property
    def location(self) -> str:  # type: ignore[override]
        """The folder, or ``s3://bucket/prefix``."""
        return self.place.location

    @contextmanager
    @override
    def open(self, file: ArchivedObject) -> Iterator[_OpenParquet]:
        obj = file
        with opened_parquet(self.place, obj.path, obj.size) as (parquet, source):
            if (parquet.metadata.metadata or {}).get(FOOTER_KEY) != obj.path.encode():
                raise pa.ArrowInvalid("its footer has another name")
            yield _OpenParquet(parquet, source, obj)


@contextmanager
def opened_parquet(place: Place, path: str, size: int) -> Iterator[tuple[pq.ParquetFile, ObjectFile | None]]:
    """Open a file, and where its ranges are held ahead of their use; None: that would not be faster.

    Raises CorruptDataError, which names the file, for Arrow's errors while it is open.
    """
    with place.open(path, size) as file:
        source = file if isinstance(file, ObjectFile) else None
        if source is not None:  # one request for a small object, and for the footer of a large one
            source.hold([(0, size) if size <= SMALL_BYTES else (max(0, size - TAIL_BYTES), size)])
        try:
            parquet = pq.ParquetFile(
                file,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",  # Spark writes it; ns hold only the years 1677 to 2262
                page_checksum_verification=True,
            )
            yield parquet, source if size > SMALL_BYTES else None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            address = place.address(path)
            raise CorruptDataError(f"the archived object {address} cannot be read: {problem}") from problem


class _OpenParquet:
    """An open object.

    source: where ranges are held ahead of their use; None: it would not be faster.
    """

    def __init__(self, file: pq.ParquetFile, source: ObjectFile | None, obj: ArchivedObject) -> None:
        self._file, self._source, self._obj = file, source, obj
        self._leaves = {file.metadata.schema.column(leaf).path: leaf for leaf in range(file.metadata.num_columns)}
        self.groups = list(self._grouped())

    def _grouped(self) -> Iterator[Group]:
        before = self._obj.first - 1
        for number in range(self._file.metadata.num_row_groups):
            first, last = self._bounds(number, "offset")
            if not before < first <= last < self._obj.next:
                raise pa.ArrowInvalid(f"it holds offsets {first} to {last}, unlike its name or out of order")
            yield Group(number, first, last, self._bounds(number, "timestamp")[1] // _MICROSECONDS)
            before = last

    def _bounds(self, number: int, column: str) -> tuple[int, int]:
        statistics: Any = self._file.metadata.row_group(number).column(self._leaves[column]).statistics
        if statistics is None or not statistics.has_min_max:
            raise pa.ArrowInvalid(f"its footer has no bounds of {column}")
        return statistics.min_raw, statistics.max_raw

    def read(
        self, number: int, start: int, end: int, schema: pa.Schema, ahead: Iterable[int] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a row group."""
        metadata, before = self._file.metadata, -1
        tops = tuple(f"{name}." for name in schema.names)
        leaves = [leaf for path, leaf in self._leaves.items() if f"{path}.".startswith(tops)]
        if self._source is not None:
            self._source.hold(ranges_ahead(metadata, [*ahead] or [number], leaves))
        rows = min(MOST_ROWS, max(1, BATCH_BYTES // max(1, row_bytes(metadata, number, leaves))))
        for raw in self._file.iter_batches(rows, row_groups=[number], columns=schema.names, use_threads=False):
            batch = raw.select(schema.names).cast(schema)
            offsets = int64_values(batch.column("offset"))
            if not before < offsets[0] or (offsets[1:] <= offsets[:-1]).any():
                raise pa.ArrowInvalid("its offsets are out of order")
            before = int(offsets[-1])
            yield from between([batch], start, end)


def ranges_ahead(metadata: Any, numbers: list[int], leaves: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the next two row groups, and of more if they are small."""
    size = 0
    for count, number in enumerate(numbers):
        if count > 1 and size > SMALL_BYTES:
            return
        for start, end in column_ranges(metadata, number, leaves):
            size += end - start
            yield start, end


def write_object(
    place: Place,
    empty: ArchivedObject,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> tuple[ArchivedObject, int]:
    """Write the records from ``empty.first`` to ``empty.next``, and return the object and the number of records.

    empty: the object, without what its records tell.
    batches: all records of the range, in the order of their offsets, with the columns of ``schema``.

    The same batches give an object of the same name with the same bytes.  The file is on the machine's disk until it is
    complete.  Raises the errors of ``Place.put``.
    """
    # The file has no name, so nothing is left of it if the process is killed.
    with TemporaryFile() as file:

        def footer(min_ms: int, max_ms: int) -> dict[bytes, str]:
            return {FOOTER_KEY: empty._replace(min_ms=min_ms, max_ms=max_ms).path}

        rows, min_ms, max_ms = write_records(file, schema, batches, footer)
        written = empty._replace(min_ms=min_ms, max_ms=max_ms, size=file.tell())
        place.put(written.path, file, noun="archived records")
    return written, rows


def write_records(
    file: IO[bytes],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    footer: Callable[[int, int], dict[bytes, str]] | None = None,
) -> tuple[int, int, int]:
    """Write records as Parquet; return how many, and their least and greatest timestamp in ms, or -1.

    footer: returns metadata, by these times.
    """
    times: list[int] = []
    rows = 0
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=[name for name in _REPEATED if name in schema.names],
        column_encoding=_IN_ORDER,
        write_statistics=_IN_FOOTER,
        write_page_checksum=True,  # zstd does not notice every damage
        store_decimal_as_integer=False,
    ) as writer:
        for group in _groups(batches):
            writer.write_table(group, row_group_size=group.num_rows)
            extremes = pc.min_max(group["timestamp"].cast(pa.int64()))
            times += [extremes["min"].as_py() // 1000, extremes["max"].as_py() // 1000]
            rows += group.num_rows
        bounds = min(times, default=-1), max(times, default=-1)
        if footer is not None:
            writer.add_key_value_metadata(footer(*bounds))
    return rows, *bounds


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.nbytes for part in held) >= GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
