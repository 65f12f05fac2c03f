"""tidegate's own archive: Kafka's columns in Parquet objects, whose names hold their offsets and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from tidegate.errors import CorruptDataError
from tidegate.readers.archive.archive import Archive
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.table_file import OpenTable, TableFile
from tidegate.readers.arrow import compute as pc
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES
from tidegate.readers.places.place import Place

FOOTER_KEY = b"tidegate.archive"
"""The key of an object's path in the metadata of its file."""

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
    def open(self, file: ArchivedObject) -> Iterator[OpenTable]:
        topic, _, partition = file.folder.rpartition("/")
        fixed = {"topic": topic, "partition": int(partition)}
        rows = TableFile(file.path, file.size, topic, int(partition), file.first, file.next, tuple(fixed.items()), ())
        with opened_parquet(self.place, file.path, file.size) as (parquet, source):
            if (parquet.metadata.metadata or {}).get(FOOTER_KEY) != file.path.encode():
                raise pa.ArrowInvalid("its footer has another name")
            paths = {name: name for name in parquet.schema_arrow.names if name not in fixed}
            yield OpenTable(parquet, source, rows, paths, deleted=np.empty(0, np.int64))


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
