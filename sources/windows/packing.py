"""Rows on their way to the windows: grouped into buckets of keys, each bucket's rows as one Arrow batch.

transformWithState hands over rows one by one, as Python objects, and each state call is a round trip through a
socket.  So Spark's grouping key is a bucket of many keys.  A task sends each bucket one row that holds all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from tidegate.sources.windows.buckets import Numbers, bucket_numbers
from tidegate.spark_private import to_arrow_schema

WITNESS = -1
"""A bucket without keys.  Each batch with rows sends it a row, so that it notices a restart with other windows.

If a restart has more buckets, all others that get rows may be new, and would notice nothing.
"""

HASH, BUCKET, TASK, NUMBER, ROWS = "__hash", "__bucket", "__task", "__number", "__rows"
PACKED = f"{BUCKET} int, {TASK} int, {NUMBER} int, {ROWS} binary"
_MOST_ROWS, _MOST_BYTES = 1 << 18, 1 << 26  # in memory at once, on their way through a task


def packed(rows: DataFrame, keys: list[Column], buckets: int | None) -> DataFrame:
    """Return the rows of each task and bucket, in order, in the columns of ``PACKED``; equal keys share a bucket.

    buckets: how many there are; None: as Spark's shuffle partitions need.
    """
    schema = rows.schema
    # PySpark takes a dot in a name for a field of a struct, so the packed columns are named by numbers.
    columns = [f.col(f"`{name}`").alias(f"__{number}") for number, name in enumerate(schema.names)]
    return rows.select(f.hash(*keys).alias(HASH), *columns).mapInArrow(_packer(buckets), PACKED)


def unpacked(blobs: Iterable[bytes], schema: StructType) -> pa.Table:
    """Return the rows that were packed, in the order of the blobs."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    return pa.Table.from_batches([pa.ipc.read_record_batch(blob, arrow_schema) for blob in blobs], arrow_schema)


def _packer(buckets: int | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        numbers = bucket_numbers(buckets)
        for number, table in enumerate(_tables(batches)):
            places = table.column(HASH).to_numpy() % len(numbers)
            yield by_bucket(table.drop_columns(HASH), places, numbers, task, number)

    return pack


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        rows, size = sum(waiting.num_rows for waiting in held), sum(waiting.nbytes for waiting in held)
        if rows >= _MOST_ROWS or size >= _MOST_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if any(batch.num_rows for batch in held):
        yield pa.Table.from_batches(held)


def by_bucket(
    table: pa.Table, places: npt.NDArray[np.integer], numbers: Numbers, task: int, number: int
) -> pa.RecordBatch:
    """Return rows as ``PACKED``, in the order of their task, and a row for the witness.

    places: the place of each row's bucket in ``numbers``.
    """
    places = places.astype(np.min_scalar_type(len(numbers)))  # NumPy sorts small integers ten times as fast
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    (rows,) = table.take(pa.array(order)).combine_chunks().to_batches()
    ends = [*begins[1:].tolist(), len(ordered)]
    of_buckets = [
        rows.slice(begin, end - begin).serialize().to_pybytes()
        for begin, end in zip(begins.tolist(), ends, strict=True)
    ]
    blobs = [b"", *of_buckets]
    return pa.record_batch(
        {
            BUCKET: pa.array([WITNESS, *numbers[ordered[begins]]], pa.int32()),
            TASK: pa.repeat(pa.scalar(task, pa.int32()), len(blobs)),
            NUMBER: pa.repeat(pa.scalar(number, pa.int32()), len(blobs)),
            ROWS: pa.array(blobs, pa.binary()),
        }
    )
