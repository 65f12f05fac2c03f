"""The numbers of buckets, chosen so that each of Spark's shuffle partitions gets equally many.

A bucket costs a batch some state calls, however few rows it has, and a partition without a bucket has nothing to do.
Spark fixes the number of partitions in a query's checkpoint.  The state holds it, too, and is refused with another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyspark import TaskContext

from tidegate.enumerators.planning.offset import check_same_state
from tidegate.spark_private import STATE_PARTITIONS

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
    told = (None if context is None else context.getLocalProperty(setting) for setting in _SETTINGS)
    return next((int(partitions) for partitions in told if partitions and partitions.isdigit()), _LEAST)


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
