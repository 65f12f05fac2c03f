"""A format whose objects are commands, a line each, for the process that reads them."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.formats.typed_format import TypedFormat
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, SetAside

SCHEMA = pa.schema([("line", pa.string()), ("process", pa.int64())])
_HARM: list[str] = []
_TAKEN = [b""]


def _suffer(_: str) -> None:
    if _HARM:
        os.abort()


def _spin(seconds: str) -> None:
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        pass


_DEEDS: dict[str, Callable[[str], object]] = {
    "signal": lambda name: os.kill(os.getpid(), signal.Signals[name]),
    "fault": lambda _: ctypes.string_at(0),
    "exit": lambda status: os._exit(int(status)),
    "harm": _HARM.append,
    "suffer": _suffer,
    "take": lambda size: _TAKEN.__setitem__(0, b"." * int(size)),
    "spin": _spin,
    "reserve": lambda size: bytearray(int(size)),
    "sleep": lambda seconds: time.sleep(float(seconds)),  # the fault itself: a decoder that is slow, or hangs
}


@dataclass(frozen=True)
class FatalFormat(TypedFormat):
    def opened(self, obj: S3Object, *, whole: bool = False):
        raise NotImplementedError  # the base asks only where survey, schema_of and read are its own

    def schema_of(self, obj: S3Object) -> pa.Schema:
        self._lines(obj)
        return SCHEMA

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        return [ChunkSurvey(0, obj.size, len(self._lines(obj)), None)]

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        for line in self.store.fetch(chunk.source, 0, chunk.size).decode().split("\n"):
            self._perform(line, chunk.source)
            yield pa.record_batch([[line], pa.array([os.getpid()], pa.int64())], schema=schema)

    def _lines(self, obj: S3Object) -> list[str]:
        lines = self.store.fetch(obj, 0, obj.size).decode().split("\n")
        for line in lines:
            self._perform(line, obj)
        return lines

    def _perform(self, line: str, obj: S3Object) -> None:
        word, _, rest = line.partition(" ")
        if word in _DEEDS:
            _DEEDS[word](rest)
        elif word == "corrupt":
            raise CorruptDataError(f"{self.store.address(obj.key)} is corrupt")
        elif word == "raise":
            raise {"KeyError": KeyError, "ArrowInvalid": pa.ArrowInvalid}[rest]("no")
        elif word == "tell":
            self.store._performance._connection.send_bytes(bytes.fromhex(rest))
        elif word == "fd":
            os.write(self.store._performance._connection.fileno(), bytes.fromhex(rest))
        elif word == "fetch":
            self.store.fetch(obj, *map(int, rest.split()))
        elif word == "thread":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self._perform, rest, obj).result()
