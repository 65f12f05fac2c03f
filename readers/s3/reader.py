"""Reads chunks of objects, on executors."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.alignment.splits import SplitRange
from tidegate.errors import BadRecordError, CorruptDataError, ObjectGoneError
from tidegate.readers.arrow.arrays import ENOUGH_BYTES, merged
from tidegate.readers.arrow.conform import position_of
from tidegate.readers.bad_record_files import BadRecordFiles, digest_of
from tidegate.readers.contract import ReadTask, SplitReader, TimedBatch, TimedRows
from tidegate.readers.event_time.columns import RowTimes
from tidegate.readers.objects.partitions import METADATA, metadata_scalar, partition_scalar, partition_texts
from tidegate.readers.objects.values import SKIP_CORRUPT, Chunk, ObjectFormat
from tidegate.readers.s3.store import ObjectStore

_LOG = logging.getLogger("tidegate.reader")


@dataclass(frozen=True, slots=True)
class S3SplitReader(SplitReader):
    """Reads the chunks that the details of a task name, one after the other.

    prefix: folders of a key below this prefix may name columns, whose values then come from the key, not from the data.
        None: no folder does.
    metadata: add the column ``_metadata``, which describes the chunk.
    times: only rows with these event times are kept; None: all rows are.
    time_column: gives the event times of rows; None: all rows of a chunk have the same.
    ignore_missing: skip objects that were deleted after discovery.
    ignore_overwritten: skip versions that were overwritten after discovery.
    ignore_corrupt: skip the rest of an object that cannot be decoded.
    """

    object_format: ObjectFormat
    store: ObjectStore
    schema: pa.Schema
    prefix: str | None = ""
    metadata: bool = False
    times: RowTimes | None = None
    time_column: RowTimes | None = None
    ignore_missing: bool = False
    ignore_overwritten: bool = False
    ignore_corrupt: bool = False
    write_bad_records: Callable[[str, bytes], None] | None = None
    _ranges: dict[Chunk, SplitRange] = field(default_factory=dict, init=False, repr=False, compare=False)
    _files: dict[SplitRange, dict[str, int]] = field(
        default_factory=lambda: defaultdict(dict), init=False, repr=False, compare=False
    )

    @property
    def bad_records(self) -> Mapping[SplitRange, int]:
        """How many records of each range were set aside; a file that was written twice counts once."""
        return {wanted: sum(files.values()) for wanted, files in self._files.items()}

    def without_writing(self) -> S3SplitReader:
        """Return a reader that writes no bad records."""
        return replace(self, write_bad_records=None)

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every chunk; those of small objects share a batch."""
        chunks = [chunk for _, chunk in self._chunks(task)]
        with self.store.reading_ahead(chunks):
            yield from merged(self._rows(chunks))

    def read_timed(self, task: ReadTask) -> TimedRows:
        """Yield the rows of every chunk, one chunk after the other."""
        chunks = self._chunks(task)
        with self.store.reading_ahead([chunk for _, chunk in chunks]):
            for number, chunk in chunks:
                for batch in self._read(chunk, self._constants(chunk)):
                    yield TimedBatch(number, batch, self._event_times(batch, chunk))

    def _chunks(self, task: ReadTask) -> list[tuple[int, Chunk]]:
        """Return the chunks of a task, each with the number of its range."""
        chunks = [(number, chunk) for number, own in enumerate(task.details) for chunk in own]
        self._ranges.update((chunk, task.ranges[number]) for number, chunk in chunks)
        return chunks

    def _event_times(self, batch: pa.RecordBatch, chunk: Chunk) -> pa.Int64Array:
        if self.time_column is not None:
            return self.time_column.times(batch, chunk.modified_ms)
        return pa.repeat(pa.scalar(chunk.min_ms, pa.int64()), batch.num_rows)

    def _rows(self, chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
        together = self.times is None
        for constants, group in _groups(chunks, self._constants):
            batches = self._together(group, constants) if together and len(group) > 1 else None
            if batches is not None:
                yield from batches
                continue
            # The objects were perhaps requested in vain.  That may happen once in a task, so no other group is tried.
            together = together and len(group) == 1
            for chunk in group:
                yield from self._read(chunk, constants)

    def _together(self, chunks: Sequence[Chunk], constants: Mapping[str, pa.Scalar]) -> list[pa.RecordBatch] | None:
        try:
            batches = self.object_format.read_together(chunks, self._data_schema(constants))
        except (BadRecordError, CorruptDataError, ObjectGoneError):
            return None  # the caller reads each by itself, to report the right one
        return batches and [self._completed(batch, constants) for batch in batches]

    def _read(self, chunk: Chunk, constants: Mapping[str, pa.Scalar]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._decoded(chunk, self._data_schema(constants)):
                rows = self._completed(batch, constants)
                yield rows if self.times is None else self.times.kept(rows, chunk.modified_ms)
        except ObjectGoneError as error:
            if not (self.ignore_overwritten if error.overwritten else self.ignore_missing):
                raise ObjectGoneError(f"{error}; {_remedy(error)}", overwritten=error.overwritten) from error
            _LOG.warning("left out: %s", error)
        except CorruptDataError as error:
            if not self.ignore_corrupt:
                raise CorruptDataError(f"{error}; {SKIP_CORRUPT}") from error
            _LOG.warning("left out: %s", error)

    def _decoded(self, chunk: Chunk, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, and write its bad records; also those before damage, which may be skipped."""
        keep, counts = self.write_bad_records, self._files[self._ranges[chunk]]
        if keep is None:
            yield from self.object_format.read(chunk, schema)
            return

        def write(name: str, data: bytes, records: int) -> None:
            keep(name, data)
            counts[name] = records

        identity = [self.store.address(chunk.key), chunk.etag, chunk.size, chunk.modified_ms, chunk.start, chunk.end]
        files = BadRecordFiles(digest_of(identity), write)
        try:
            yield from self.object_format.read(chunk, schema, files.add)
        except CorruptDataError:
            files.flush()
            raise
        files.flush()

    def _constants(self, chunk: Chunk) -> dict[str, pa.Scalar]:
        """Return the columns that are constant in a chunk; formats do not see them."""
        constants: dict[str, pa.Scalar] = {}
        address, names = self.store.address(chunk.key), self.schema.names
        for name, text in partition_texts(chunk.key, self.prefix).items():
            index = position_of(name, names)
            if index is not None:
                constants[names[index]] = partition_scalar(text, self.schema.field(index), address)
        if self.metadata:
            constants[METADATA.name] = metadata_scalar(chunk, address)
        return constants

    def _data_schema(self, constants: Mapping[str, pa.Scalar]) -> pa.Schema:
        return pa.schema([field for field in self.schema if field.name not in constants]) if constants else self.schema

    def _completed(self, batch: pa.RecordBatch, constants: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
        if not constants:
            return batch
        columns = [
            pa.repeat(constants[field.name], batch.num_rows) if field.name in constants else batch.column(field.name)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _groups(
    chunks: Iterable[Chunk], constants: Callable[[Chunk], dict[str, pa.Scalar]]
) -> Iterator[tuple[dict[str, pa.Scalar], list[Chunk]]]:
    """Yield groups of successive chunks with the same constants, none larger than a batch unless a chunk is."""
    group: list[Chunk] = []
    size = 0
    shared: dict[str, pa.Scalar] = {}
    for chunk in chunks:
        own = constants(chunk)
        size += chunk.end - chunk.start
        if group and (size > ENOUGH_BYTES or own != shared):
            yield shared, group
            group, size = [], chunk.end - chunk.start
        group.append(chunk)
        shared = own
    if group:
        yield shared, group


def _remedy(error: ObjectGoneError) -> str:
    if error.overwritten:
        return "set allowOverwrites to true to read the new version in its place"
    return "set ignoreMissingFiles to true to go on without it"
