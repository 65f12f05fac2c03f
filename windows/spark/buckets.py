"""Rows on their way to the windows: grouped into buckets of keys, each bucket's rows as one Arrow batch.

transformWithState hands over rows one by one, as Python objects, and each state call is a round trip through a
socket.  So Spark's grouping key is a bucket of many keys.  A task sends each bucket one row that holds all its rows.

The numbers of buckets are chosen so that each of Spark's shuffle partitions gets equally many.

A bucket costs a batch some state calls, however few rows it has, and a partition without a bucket has nothing to do.
Spark fixes the number of partitions in a query's checkpoint.  The state also holds it, and is refused with another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DoubleType, FloatType, IntegerType, LongType, StructType

from tidegate.add_ons import RECORDS, check_same_state
from tidegate.spark_private import STATE_PARTITIONS, to_arrow_schema
from tidegate.windows.spark.keys import comparable, hashes

Numbers: TypeAlias = npt.NDArray[np.int32]
BUCKETS = "number of buckets"
"""The part of a description of windows that says how many buckets there are."""
_OF_PARTITIONS = re.compile(r"for (\d+) shuffle partitions")
_LEAST = 16  # buckets of a query: with few partitions, one bucket each would hold too many rows at once
_SETTINGS = (STATE_PARTITIONS, "spark.sql.shuffle.partitions")  # a batch query has only the second
_SEED, _FACTOR_1, _FACTOR_2, _ADDED, _MIX_1, _MIX_2 = map(
    np.uint32, (42, 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35)
)


def bucket_numbers(count: int | None) -> Numbers:
    """Return the numbers of a query's buckets, in a task of the query.

    count: how many there are, as the user says; None: as its shuffle partitions need.
    """
    return balanced(_partitions()) if count is None else np.arange(count, dtype=np.int32)


def described_buckets(count: int | None) -> str:
    """Return what the state says of these buckets, in a task of the query."""
    if count is not None:
        return str(count)
    return f"{len(bucket_numbers(None))}, for {_partitions()} shuffle partitions"


def check_same_windows(stored: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise CheckpointError if a bucket holds the state of windows with another description."""
    was, is_now = (description.get(BUCKETS, "") for description in (stored, now))
    check_same_state("windows", stored, now, "set that back" if was == is_now else _remedy(was, is_now))


def _remedy(was: str, is_now: str) -> str:
    """Return how windows get the number of buckets that their state has."""
    if was.isdigit():
        return f"set that back, by .buckets({was})"
    partitions = _OF_PARTITIONS.search(was)
    if is_now.isdigit() or partitions is None:
        return "set that back, without .buckets()"
    return (
        f"repartition the state back to {partitions[1]}, because only windows with .buckets(n) may have another number "
        "of partitions"
    )


def _partitions() -> int:
    context = TaskContext.get()
    numbers = (None if context is None else context.getLocalProperty(setting) for setting in _SETTINGS)
    return next((int(partitions) for partitions in numbers if partitions and partitions.isdigit()), _LEAST)


@cache
def balanced(partitions: int) -> Numbers:
    """Return the least numbers of which Spark sends equally many to each of these partitions."""
    each, candidates = -(-_LEAST // partitions), 16 * max(partitions, _LEAST)
    while True:
        partition = partitions_of(np.arange(candidates, dtype=np.int32), partitions)
        order = np.argsort(partition, kind="stable")
        counts = np.bincount(partition, minlength=partitions)
        if counts.min() >= each:
            begins = np.cumsum(counts) - counts
            return np.sort(order[(begins[:, None] + np.arange(each)).ravel()]).astype(np.int32)
        candidates *= 2


def partitions_of(numbers: Numbers, partitions: int) -> npt.NDArray[np.int64]:
    """Return the shuffle partition of each number: Spark's ``HashPartitioning``, the 32-bit Murmur3 of an int."""
    mixed = _rotated(numbers.view(np.uint32) * _FACTOR_1, 15) * _FACTOR_2
    hashed = _rotated(_SEED ^ mixed, 13) * np.uint32(5) + _ADDED
    hashed ^= np.uint32(4)  # bytes of an int
    hashed = (hashed ^ (hashed >> np.uint32(16))) * _MIX_1
    hashed = (hashed ^ (hashed >> np.uint32(13))) * _MIX_2
    hashed ^= hashed >> np.uint32(16)
    partition: npt.NDArray[np.int64] = hashed.view(np.int32).astype(np.int64) % partitions
    return partition


def _rotated(numbers: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    rotated: npt.NDArray[np.uint32] = (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
    return rotated


WITNESS = -1
"""A bucket without keys.  Each batch with rows sends it a row, so that it notices a restart with other windows.

If a restart has more buckets, all others that get rows may be new, and would notice nothing.
"""

BUCKET, TASK, NUMBER, ROWS = "__bucket", "__task", "__number", "__rows"
PACKED = (  # not in DDL: Java parses that, which tasks lack
    StructType()
    .add(BUCKET, IntegerType())
    .add(TASK, IntegerType())
    .add(NUMBER, IntegerType())
    .add(ROWS, BinaryType())
    .add(RECORDS, LongType())
)
"""The columns of packed rows: the bytes of an Arrow batch, and once, for how many records all rows of a task stand."""
_MOST_ROWS, _MOST_BYTES = 1 << 18, 1 << 26  # in memory at once, on their way through a task


def packed(rows: DataFrame, keys: Sequence[str], buckets: int | None) -> DataFrame:
    """Return the rows of each task and bucket, in order, in the columns of ``PACKED``; equal keys share a bucket.

    buckets: how many there are; None: as Spark's shuffle partitions need.
    """
    names = rows.schema.names
    # PySpark takes a dot in a name for a field of a struct, so the packed columns are named by numbers.
    columns = [f.col(f"`{name}`").alias(f"__{number}") for number, name in enumerate(names)]
    numbered = rows.select(*columns)
    packer = Packer([f"__{names.index(key)}" for key in keys], numbered.schema, buckets)
    return numbered.mapInArrow(packer.pack, PACKED)


def unpacked(blobs: Iterable[bytes], schema: StructType) -> pa.Table:
    """Return the rows that were packed, in the order of the blobs."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    return pa.Table.from_batches([pa.ipc.read_record_batch(blob, arrow_schema) for blob in blobs], arrow_schema)


class Packer:
    """Packs rows by bucket.

    keys: the columns of the key.  rows: all columns.  buckets: as ``packed`` has it.
    """

    def __init__(self, keys: Sequence[str], rows: StructType, buckets: int | None) -> None:
        self._keys, self._buckets = list(keys), buckets
        self._floats = [key for key in keys if isinstance(rows[key].dataType, FloatType | DoubleType)]

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as ``PACKED``."""
        yield from self.of_tables((table, table.num_rows) for table in tables(batches))

    def of_tables(self, of_task: Iterable[tuple[pa.Table, int]]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as ``PACKED``: tables, each with the number of the records that it stands for."""
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        numbers = bucket_numbers(self._buckets)
        for number, (table, records) in enumerate(of_task):
            rows = comparable(table, self._floats)
            # The low bits of a hash find the page of a key in its bucket.
            places = (hashes(rows.select(self._keys)) >> np.uint64(32)) % np.uint64(len(numbers))
            yield by_bucket(rows, places, numbers, task, number, records)


def tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of batches in tables of many rows."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _MOST_ROWS or size >= _MOST_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if any(batch.num_rows for batch in held):
        yield pa.Table.from_batches(held)


def by_bucket(
    table: pa.Table, places: npt.NDArray[np.integer], numbers: Numbers, task: int, number: int, records: int = 0
) -> pa.RecordBatch:
    """Return rows as ``PACKED``, in the order of their task, and a row for the witness.

    places: the place of each row's bucket in ``numbers``.
    records: for how many records of the source the rows stand.
    """
    places = places.astype(np.min_scalar_type(len(numbers)))  # NumPy sorts small integers ten times as fast
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    batches = table.take(pa.array(order)).combine_chunks().to_batches()  # one, or none without rows
    of_buckets = [
        batches[0].slice(begin, end - begin).serialize().to_pybytes()
        for begin, end in pairwise([*begins.tolist(), len(ordered)])
    ]
    blobs = [b"", *of_buckets]
    return pa.record_batch(
        {
            BUCKET: pa.array([WITNESS, *numbers[ordered[begins]]], pa.int32()),
            TASK: pa.repeat(pa.scalar(task, pa.int32()), len(blobs)),
            NUMBER: pa.repeat(pa.scalar(number, pa.int32()), len(blobs)),
            ROWS: pa.array(blobs, pa.binary()),
            RECORDS: pa.array([records, *[0] * len(of_buckets)], pa.int64()),
        }
    )
