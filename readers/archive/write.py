"""Writes the records of an offset range as one object of an archive."""

from __future__ import annotations

from collections.abc import Iterable
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.parquet import FOOTER_KEY
from tidegate.readers.arrow import compute as pc
from tidegate.readers.places.place import Place

GROUP_BYTES = 4 << 20  # of decoded records in a row group, which is read as a whole, even if a range ends in it
_IN_ORDER = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_REPEATED = ["topic", "partition", "timestampType"]
_IN_FOOTER = ["topic", "partition", "offset", "timestamp"]  # extremes of keys and values would only make it larger


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
    times: list[int] = []
    rows = 0
    # The file has no name, so nothing is left of it if the process is killed.
    with TemporaryFile() as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=_REPEATED,
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
            written = empty._replace(min_ms=min(times, default=-1), max_ms=max(times, default=-1))
            writer.add_key_value_metadata({FOOTER_KEY: written.path})
        written = written._replace(size=file.tell())
        place.put(written.path, file, noun="archived records")
    return written, rows


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.nbytes for part in held) >= GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
