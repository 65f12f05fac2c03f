"""A format that runs in a decoder process, so that an object which ends it is an error like any other."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidegate.errors import ConnectorError, CorruptDataError
from tidegate.readers.conform import inferred_schema
from tidegate.readers.decoder_child import Look
from tidegate.readers.decoder_process import DecoderCall, DecoderEndedError, decoder
from tidegate.readers.decompression import DEFAULT_MOST_BYTES
from tidegate.readers.object_store import SMALL_BYTES, TAIL_BYTES
from tidegate.readers.objects import Chunk, ChunkSurvey, ObjectFormat, S3Object
from tidegate.readers.row_groups import unseen_surveys
from tidegate.readers.typed_format import TypedFormat

__all__ = ["GuardedFormat"]

OWN_BYTES = 768 << 20  # for what is fetched ahead, and a page of each column: more than most objects ever take


@dataclass(frozen=True)
class GuardedFormat(ObjectFormat):
    """Reads what another format reads.

    An object that ends a decoder process, keeps it busy without end, or asks for too much memory is corrupt.

    inner: reads the end of an object first, as far as TAIL_BYTES, or all of one that it reads within SMALL_BYTES.
    most_bytes: how much memory decoding an object may take beyond OWN_BYTES: maxDecompressedBytes.
    """

    inner: TypedFormat
    most_bytes: int = DEFAULT_MOST_BYTES

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """See ObjectFormat.infer."""
        store = self.inner.store
        return inferred_schema(samples, lambda found: self._looked_at("infer", [found], [([found],)])[0], store.bucket)

    def survey(self, found: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey."""
        surveys = unseen_surveys(found, column, self.inner.chunk_bytes)
        return self._looked_at("survey", [found], [(found, column)])[0] if surveys is None else surveys

    def survey_together(self, founds: Sequence[S3Object], column: str | None) -> list[list[ChunkSurvey]] | None:
        """See ObjectFormat.survey_together."""
        if any(unseen_surveys(found, column, self.inner.chunk_bytes) is not None for found in founds):
            return None
        surveys: list[list[ChunkSurvey]] = self._looked_at("survey", founds, [(found, column) for found in founds])
        return surveys

    def read(self, chunk: Chunk, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read."""
        begin = 0 if chunk.size <= SMALL_BYTES else chunk.size - TAIL_BYTES
        ahead = self.inner.store.fetch(chunk.source, begin, chunk.size)
        look = ((chunk, schema), begin, len(ahead))
        with closing(self._run("read", chunk.source, look, ahead=ahead, in_turn=False)) as batches:
            for batch in batches:
                yield pa.ipc.read_record_batch(pa.py_buffer(batch), schema)

    def read_together(self, chunks: Sequence[Chunk], schema: pa.Schema) -> list[pa.RecordBatch] | None:
        """See ObjectFormat.read_together."""
        if self.inner.bad_records.path is not None or any(chunk.size > SMALL_BYTES for chunk in chunks):
            return None
        wholes = [self.inner.store.fetch(chunk.source, 0, chunk.size) for chunk in chunks]
        looks = [((chunk, schema), 0, chunk.size) for chunk in chunks]
        batches = self._run("read", chunks[0].source, *looks, ahead=b"".join(wholes), in_turn=False)
        return [pa.ipc.read_record_batch(pa.py_buffer(batch), schema) for batch in batches]

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(replace(self.inner, store=None))  # type: ignore[arg-type]  # the process has its own

    def _looked_at(self, method: str, founds: Sequence[S3Object], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what a method returns of each object."""
        begins = [max(0, found.size - TAIL_BYTES) for found in founds]
        ends = [self.inner.store.fetch(found, at, found.size) for found, at in zip(founds, begins, strict=True)]
        looks = zip(arguments, begins, map(len, ends), strict=True)
        steps = self._run(method, founds[0], *looks, ahead=b"".join(ends), in_turn=True)
        try:
            next(steps)
        except StopIteration as returned:
            results: list[Any] = returned.value
            return results
        raise AssertionError(f"{method} yields nothing")

    def _run(
        self, method: str, found: S3Object, *looks: Look, ahead: bytes, in_turn: bool
    ) -> Generator[bytes, None, list[Any]]:
        """Call a method in a decoder process; ``found``: the object that errors name, the first one."""
        store, address = self.inner.store, self.inner.store.address(found.key)
        call = DecoderCall(store, self._pickled, OWN_BYTES + self.most_bytes, method, looks, ahead)
        given = 0
        for fresh in (False, True):
            try:
                with decoder(fresh=fresh, in_turn=in_turn) as process, closing(process.run(call)) as steps:
                    for _ in range(given):  # the same again
                        next(steps, None)
                    while True:
                        try:
                            batch = next(steps)
                        except StopIteration as returned:
                            results: list[Any] = returned.value
                            return results
                        given += 1
                        yield batch
            except DecoderEndedError as end:  # noqa: PERF203 - once or twice
                # It may have died of what an earlier call did to its memory, or by somebody's hand.
                if fresh or (end.is_first and end.kind != "killed"):
                    raise self._error(end, address) from None
            except MemoryError:
                raise self._too_large(address) from None
        raise AssertionError("the second process returns, or raises")

    def _error(self, end: DecoderEndedError, address: str) -> ConnectorError | CorruptDataError:
        match end.kind:
            case "killed":
                return ConnectorError(f"the process that decoded {address} was killed ({end.cause})")
            case "memory":
                return self._too_large(address)
            case "silent":
                return CorruptDataError(f"the object {address} keeps Arrow's reader busy ({end.cause})")
            case _:
                return CorruptDataError(f"the object {address} ends Arrow's reader ({end.cause})")

    def _too_large(self, address: str) -> CorruptDataError:
        return CorruptDataError(
            f"{address} takes more than {(OWN_BYTES + self.most_bytes) >> 20} MiB of memory to decode; if it is sound, "
            f"raise maxDecompressedBytes, which is {self.most_bytes}"
        )
