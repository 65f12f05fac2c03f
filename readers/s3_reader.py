"""Reads the chunks of manifests: the S3 connector's half on the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.contract import ReadTask, SplitReader
from tidegate.readers.objects import Chunk, ObjectFormat

__all__ = ["S3SplitReader"]

_LOG = logging.getLogger("tidegate.reader")


@dataclass(frozen=True, slots=True)
class S3SplitReader(SplitReader):
    """Reads the chunks that the details of a task name, one after the other.

    schema: of the batches.
    ignore_missing: skip objects that were deleted or overwritten since they were found.
    ignore_corrupt: skip the rest of an object that cannot be decoded.
    """

    object_format: ObjectFormat
    schema: pa.Schema
    ignore_missing: bool = False
    ignore_corrupt: bool = False

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every chunk."""
        for chunks in task.details:
            for chunk in chunks:
                yield from self._read(chunk)

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
