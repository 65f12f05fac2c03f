"""Finds the objects that a key or a glob names, and explains why they were read or not."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.s3.discovery.left_out import LeftOutObject
from tidegate.enumerators.s3.manifest import compressed_batches
from tidegate.errors import OptionError
from tidegate.jobs.ledger.query_ledger import QueryLedger
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.readers.s3.address import s3_address
from tidegate.readers.s3.listing import Listed, PageRequest, list_pages
from tidegate.readers.s3.store import ObjectStore
from tidegate.sources.s3.source import S3Source

_SPECIAL = re.compile(r"[*?\[]")

State: TypeAlias = Literal[
    "read", "planned", "waiting", "found", "left out", "overwritten", "too old", "not found yet", "gone", "unknown"
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key, or a glob of keys with ``*`` (also for ``/``), ``?`` and ``[a-z]``, perhaps as ``s3://bucket/key``."""

    text: str

    @property
    def pattern(self) -> str:
        """The key or glob without the bucket."""
        # An object's key may begin with a slash; the key of an address may not.
        return self.text if s3_address(self.text) is None else self.text.partition("://")[2].partition("/")[2]

    @property
    def prefix(self) -> str:
        """The prefix of all the keys."""
        special = _SPECIAL.search(self.pattern)
        return self.pattern if special is None else self.pattern[: special.start()]

    @property
    def is_glob(self) -> bool:
        """Whether several objects may match."""
        return self.prefix != self.pattern

    def has(self, key: str) -> bool:
        """Return whether a key matches."""
        return key == self.pattern or (self.is_glob and fnmatch.fnmatchcase(key, self.pattern))


def wanted_objects(source: S3Source, wanted: Wanted) -> list[Listed]:
    """Return the wanted objects of the source's bucket, data or not, in the order of keys.

    Raises OptionError if another bucket is named, and the errors of the listing.
    """
    if "://" in wanted.text and not wanted.text.partition("://")[2].startswith(f"{source.bucket}/"):
        raise OptionError(f"{wanted.text!r} is not in the bucket {source.bucket!r}, of the path {source.path}")
    if not wanted.is_glob:
        found = ObjectStore(source.connection, source.bucket).find(wanted.pattern)
        return [] if found is None else [found]
    pages = list_pages(source.connection, PageRequest(source.bucket, wanted.prefix))
    return sorted({listed for page in pages for listed in page.listed if wanted.has(listed.obj.key)})


def why_of(ledger: QueryLedger, wanted: Wanted) -> list[Json]:
    """Return the findings about the wanted objects, in the order of their keys; with a source, ask the bucket, too.

    Each object has at least one.  A finding has its ``state``.  If it is about a chunk, it has that chunk, its place,
    and the batch that read it, or reads it now.  If the object was left out, it has the ``reason``.
    """
    chunks: dict[str, list[tuple[SplitId, int, Chunk]]] = {}
    for split in ledger.manifests:
        for position, chunk in find_chunks(ledger, split, wanted):
            chunks.setdefault(chunk.key, []).append((split, position, chunk))
    noted: dict[str, list[LeftOutObject]] = {}
    for left_out in ledger.left_out.objects():
        if wanted.has(left_out.obj.key):
            noted.setdefault(left_out.obj.key, []).append(left_out)
    present = {} if ledger.source is None else {one.obj.key: one for one in wanted_objects(ledger.source, wanted)}
    keys = {*chunks, *noted, *present, *(() if wanted.is_glob else (wanted.pattern,))}
    return [
        {
            "key": key,
            "findings": [
                *(_of_chunk(ledger, *place) for place in chunks.get(key, ())),
                *_of_object(ledger, key, present.get(key), chunks.get(key, ()), noted.get(key, ())),
            ],
        }
        for key in sorted(keys)
    ]


def find_chunks(ledger: QueryLedger, split: SplitId, wanted: Wanted) -> Iterator[tuple[int, Chunk]]:
    """Yield the chunks of the wanted objects, with their positions in a manifest."""
    begin = 0
    for batch in compressed_batches(ledger.manifests[split].data):
        near = batch.append_column("position", pa.array(range(begin, begin + batch.num_rows))).filter(
            pc.starts_with(batch["key"], wanted.prefix)
        )
        begin += batch.num_rows
        for *fields, position in zip(*near.to_pydict().values(), strict=True):
            if wanted.has(fields[0]):
                yield position, Chunk(*fields)


def _of_chunk(ledger: QueryLedger, split: SplitId, position: int, chunk: Chunk) -> Json:
    batch = ledger.batch_of(split, position)
    state: State
    if batch is None:
        state = "waiting" if split in ledger.planned else "found"
    else:
        state = "read" if batch.is_committed else "planned"
    place = {"manifest": split, "position": position, "batch": None if batch is None else batch.number}
    shown = {"state": state, **chunk._asdict(), **place}
    del shown["key"]
    return shown


def _of_object(
    ledger: QueryLedger,
    key: str,
    present: Listed | None,
    chunks: Sequence[tuple[SplitId, int, Chunk]],
    noted: Sequence[LeftOutObject],
) -> Iterator[Json]:
    for note in noted:
        yield _finding("left out", note.reason)
    if ledger.source is None:
        if not chunks and not noted:
            yield _finding("found" if ledger.seen is not None and ledger.seen.remembers(key) else "unknown")
        return
    if present is None:
        yield _finding("gone" if chunks or noted else "unknown")
        return
    rules = ledger.source.listing_rules
    if not key.startswith(rules.prefix):
        yield _finding("left out", f"its key does not begin with {rules.prefix!r}")
    elif (objection := rules.objection(present)) is not None:
        yield _finding("left out", objection)
    elif present.obj not in [*(chunk.source for _, _, chunk in chunks), *(note.obj for note in noted)]:
        yield _finding("overwritten" if chunks else _of_present(ledger, present.obj))


def _of_present(ledger: QueryLedger, present: S3Object) -> State:
    """Return the state of an object without a kept chunk."""
    seen = ledger.seen
    if seen is None:
        return "unknown"
    new, overwritten = seen.sift([present])
    if new or overwritten:
        return "not found yet" if new else "overwritten"
    return "read" if seen.remembers(present.key) else "too old"


def _finding(state: State, reason: str | None = None) -> Json:
    return {"state": state} if reason is None else {"state": state, "reason": reason}
