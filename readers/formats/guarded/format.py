"""Runs a format in a decoder process, so that an object that ends this process is an error like any other."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from tidegate.errors import ConnectorError, CorruptDataError
from tidegate.readers.arrow.conform import check_levels
from tidegate.readers.decompression import DEFAULT_MOST_BYTES
from tidegate.readers.formats.guarded.child import Call, ObjectRead
from tidegate.readers.formats.guarded.process import DecoderEndedError, decoder, turn
from tidegate.readers.formats.row_groups import unseen_surveys
from tidegate.readers.formats.typed_format import TypedFormat, inferred_schema
from tidegate.readers.objects.values import (
    SMALL_BYTES,
    TAIL_BYTES,
    Chunk,
    ChunkSurvey,
    ObjectFormat,
    S3Object,
    SetAside,
)

OWN_BYTES = 768 << 20  # memory for fetched bytes and a page of each column; most objects take less
BUSY_S = 120  # a process that takes so much CPU without a message is stuck; a slow machine does not count


@dataclass(frozen=True)
class GuardedFormat(ObjectFormat):
    """Reads objects by another format, in a decoder process.

    An object that ends a decoder process, keeps it busy forever, or takes too much memory is corrupt.

    inner: the other format.  Its first request is for at most the last TAIL_BYTES of an object.  Or it is for the whole
        object, if that is read and has at most SMALL_BYTES.
    most_bytes: the memory beyond OWN_BYTES that decoding an object may take, in bytes: maxDecompressedBytes.
    """

    inner: TypedFormat
    most_bytes: int = DEFAULT_MOST_BYTES

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """See ObjectFormat.infer."""
        return inferred_schema(
            samples, lambda obj: self._looked_at("schema_of", [(obj, obj)])[0], self.inner.store.bucket
        )

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey.  Without a column, an object up to ``chunk_bytes`` is not read."""
        surveys = unseen_surveys(obj, column, self.inner.chunk_bytes)
        return self._looked_at("survey", [(obj, obj, column)])[0] if surveys is None else surveys

    def survey_together(self, objects: Sequence[S3Object], column: str | None) -> list[list[ChunkSurvey]] | None:
        """See ObjectFormat.survey_together."""
        if any(unseen_surveys(obj, column, self.inner.chunk_bytes) is not None for obj in objects):
            return None
        surveys: list[list[ChunkSurvey]] = self._looked_at("survey", [(obj, obj, column) for obj in objects])
        return surveys

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read; raises OptionError for a schema with too many nested levels for a message."""
        del set_aside  # a format of columns sets no record aside
        check_levels(schema)
        begin = 0 if chunk.size <= SMALL_BYTES else chunk.size - TAIL_BYTES
        look = ObjectRead(chunk.source, (chunk, schema), begin, self.inner.store.fetch(chunk.source, begin, chunk.size))
        with closing(self._run("read", [look])) as batches:
            for batch in batches:
                yield self._batch(batch, schema, chunk)

    def read_together(self, chunks: Sequence[Chunk], schema: pa.Schema) -> list[pa.RecordBatch] | None:
        """See ObjectFormat.read_together."""
        if any(chunk.size > SMALL_BYTES for chunk in chunks):
            return None
        check_levels(schema)
        fetch = self.inner.store.fetch
        looks = [ObjectRead(chunk.source, (chunk, schema), 0, fetch(chunk.source, 0, chunk.size)) for chunk in chunks]
        try:
            batches = [*self._run("read", looks)]
        except ConnectorError:
            return None  # the caller reads each by itself, to report the right one
        return [self._batch(batch, schema, chunks[0]) for batch in batches]

    def _batch(self, message: bytes, schema: pa.Schema, chunk: Chunk) -> pa.RecordBatch:
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(message), schema)
            batch.validate()
        except (pa.ArrowException, OSError, EOFError) as problem:
            address = self.inner.store.address(chunk.key)
            raise CorruptDataError(f"the decoder process sent no valid batch of {address}: {problem}") from None
        return batch

    def _looked_at(self, method: str, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the results of a method for each object, which is its first argument."""
        looks = []
        for obj, *arguments in asked:
            begin = max(0, obj.size - TAIL_BYTES)
            looks.append(ObjectRead(obj, tuple(arguments), begin, self.inner.store.fetch(obj, begin, obj.size)))
        with turn():
            return [*self._run(method, looks)]

    def _run(self, method: str, looks: Sequence[ObjectRead]) -> Generator[Any, None, None]:
        """Call a method in a decoder process, and yield what it returns or yields; errors name the first object."""
        address = self.inner.store.address(looks[0].obj.key)
        call = Call(self.inner, method, looks, OWN_BYTES + self.most_bytes, BUSY_S)
        passed = 0
        for fresh in (False, True):
            try:
                with decoder(fresh=fresh) as process, closing(process.run(call)) as items:
                    is_first = process.calls == 0
                    for item in islice(items, passed, None):  # the caller has the others already
                        passed += 1
                        yield item
                    return
            except DecoderEndedError as end:  # noqa: PERF203 - the loop runs twice at most
                # An earlier call may have damaged the memory of the process, or somebody may have killed it.
                if fresh or (is_first and end.kind != "killed"):
                    raise self._error(end, address) from None
            except MemoryError:
                raise self._too_large(address) from None
            except pa.ArrowException as problem:
                raise CorruptDataError(f"{address} cannot be decoded: {problem}") from None
            except RuntimeError as problem:
                raise ConnectorError(f"decoding {address} failed: {problem}") from None

    def _error(self, end: DecoderEndedError, address: str) -> ConnectorError | CorruptDataError:
        match end.kind:
            case "killed":
                return ConnectorError(f"the process that decoded {address} was killed ({end})")
            case "memory":
                return self._too_large(address)
            case "busy":
                return CorruptDataError(f"the object {address} keeps Arrow's reader busy for {BUSY_S} s of CPU time")
            case "silent":
                return ConnectorError(f"the process that decodes {address} {end}")
            case _:
                return CorruptDataError(f"the object {address} ends Arrow's reader ({end})")

    def _too_large(self, address: str) -> CorruptDataError:
        return CorruptDataError(
            f"{address} takes more than {(OWN_BYTES + self.most_bytes) >> 20} MiB of memory to decode; if it is sound, "
            f"raise maxDecompressedBytes, which is {self.most_bytes}"
        )
