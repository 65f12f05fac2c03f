"""Objects in memory, for a guarded format that obeys their lines."""

from __future__ import annotations

from tests.readers.formats.guarded.fatal_format import SCHEMA, FatalFormat
from tests.support.objects.lab import InMemory, chunk
from tidegate.readers.formats.guarded.format import GuardedFormat

MOST_BYTES = 64 << 20


def objects(**contents: str) -> InMemory:
    return InMemory(**{key: content.encode() for key, content in contents.items()})


def guarded(store: InMemory) -> GuardedFormat:
    return GuardedFormat(FatalFormat(store, chunk_bytes=1), MOST_BYTES)


def lines_of(batches) -> list[str]:
    return [row["line"] for batch in batches for row in batch.to_pylist()]


def processes_of(store: InMemory, *keys: str) -> list[int]:
    made = guarded(store)
    return [batch.column("process")[0].as_py() for key in keys for batch in made.read(chunk(store.listed(key)), SCHEMA)]
