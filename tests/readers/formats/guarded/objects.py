"""Objects in memory, for a guarded format that obeys their lines."""

from __future__ import annotations

from tests.readers.formats.guarded.fatal_format import SCHEMA, FatalFormat
from tests.support.objects.lab import InMemory, chunk
from tidegate.errors import ObjectGoneError
from tidegate.readers.formats.guarded.format import GuardedFormat
from tidegate.readers.objects.values import S3Object

MOST_BYTES = 64 << 20


class Objects(InMemory):
    """Several objects by their keys; their store may fail."""

    def __init__(self, **contents: str) -> None:
        super().__init__(b"")
        self.contents = {key: content.encode() for key, content in contents.items()}
        self.gone: tuple[int, int] | None = None

    def _fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        if (start, end) == self.gone:
            raise ObjectGoneError("it is gone", overwritten=True)
        return self.contents[obj.key][start:end]

    def listed(self, key: str) -> S3Object:
        return S3Object(key, len(self.contents[key]), "", 0)

    def chunk(self, key: str):
        return chunk(self.listed(key))


def guarded(store: InMemory, **options) -> GuardedFormat:
    return GuardedFormat(FatalFormat(store, chunk_bytes=1, **options), MOST_BYTES)


def lines_of(batches) -> list[str]:
    return [row["line"] for batch in batches for row in batch.to_pylist()]


def processes_of(store: Objects, *keys: str) -> list[int]:
    made = guarded(store)
    return [batch.column("process")[0].as_py() for key in keys for batch in made.read(store.chunk(key), SCHEMA)]
