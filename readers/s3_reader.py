"""Reads the chunks of manifests: the S3 connector's half on the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.contract import ReadTask, SplitReader
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import Chunk, ObjectFormat

__all__ = ["S3SplitReader"]

_LOG = logging.getLogger("tidegate.reader")
_ENOUGH_BYTES = 1 << 20  # of a batch; the way to Spark costs each one some 0.3 ms, however small it is


@dataclass(frozen=True, slots=True)
class S3SplitReader(SplitReader):
    """Reads the chunks that the details of a task name, one after the other.

    store: where the objects are; those that are small are fetched ahead.
    schema: of the batches.
    ignore_missing: skip objects that were deleted or overwritten since they were found.
    ignore_corrupt: skip the rest of an object that cannot be decoded.
    """

    object_format: ObjectFormat
    store: ObjectStore
    schema: pa.Schema
    ignore_missing: bool = False
    ignore_corrupt: bool = False

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every chunk; those of small objects share a batch."""
        chunks = [*chain.from_iterable(task.details)]
        with self.store.reading_ahead(chunks):
            yield from _merged(chain.from_iterable(map(self._read, chunks)))

    def _read(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.object_format.read(chunk, self.schema)
        except ObjectGoneError as error:
            if not self.ignore_missing:
                raise
            _LOG.warning("left out: %s", error)
        except CorruptDataError as error:
            if not self.ignore_corrupt:
                raise
            _LOG.warning("left out: %s", error)


def _merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, small batches merged until they have enough bytes."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _ENOUGH_BYTES:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    merged: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return merged
