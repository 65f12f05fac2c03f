"""The standing of a query over manifests, its snapshot, and the next standing after a discovery round.

Pure: each step returns the next standing and the files to write before it counts.  A file never changes, so an
interrupted step leaves only files that no offset names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
from pydantic import ConfigDict

from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.s3.discovery.complete_folders import FoldersSnapshot
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.state.seen_objects import SeenObjects, SeenSnapshot
from tidegate.enumerators.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class S3Snapshot(Snapshot):
    """A snapshot of an S3 enumerator.

    owner: names the query, its part of the state location, and the holder of the lease.
    number: of the last manifest, or 0 before the first.
    seen: None: no round has ended yet.
    clean: for ``SourceCleaning``; None: the query does not clean.
    listed_ms: when the last full listing of a query with notifications began; None: the next round lists all.
    queue: the queue that has told of objects since then, by its ``identity``; another one may have missed some.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    owner: str
    number: int
    seen: SeenSnapshot | None
    clean: Mapping[SplitId, list[int]] | None = None
    listed_ms: int | None = None
    queue: str | None = None
    folders: FoldersSnapshot | None = None

    @property
    def runs(self) -> Collection[str]:
        """The files with the objects that were seen."""
        return () if self.seen is None else self.seen["runs"]


MOST_MANIFESTS = 8
"""More manifests are merged, because the offset names each."""


class Step(NamedTuple):
    """The outcome of a step, and the files to write, by name."""

    standing: ManifestStanding
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ManifestStanding:
    """The manifests that are still needed, and the snapshot of the objects found.

    snapshot: with the number of the last manifest; others fill in its ``clean``.
    live: the manifests; those that came before the last one that was read may have been merged.
    holding: the manifests that hold back the others of a group even once they are read, and the end of what may be read
        of each: those that came after the last one that has been read, or else that one, since others follow it.
    last: the last one that has been read; None: none has been, or the source holds back no group.
    """

    snapshot: S3Snapshot
    live: Mapping[SplitId, Manifest] = field(default_factory=dict)
    holding: Positions = field(default_factory=dict)
    last: SplitId | None = None

    def greatest_number(self, splits: Positions | Mapping[SplitId, Manifest]) -> int:
        """Return the greatest number of the live ones among some manifests; 0: none is live."""
        return max((self.live[split].number for split in splits if split in self.live), default=0)

    def with_manifest(self, manifest: Manifest) -> ManifestStanding:
        """Return the standing with a stored manifest."""
        return replace(self, live={**self.live, manifest.id: manifest})

    def with_holding(self, committed: Positions, held_from_ms: int) -> ManifestStanding:
        """Return the standing with the manifests that hold back the others of a group.

        held_from_ms: chunks from this event time on wait for the clock: who waits for them would wait for years.
        """
        read = {split: committed.get(split, 0) for split in self.live}
        # A clock may go back, an end may not.
        ends = {split: max(read[split], manifest.end_before(held_from_ms)) for split, manifest in self.live.items()}
        ends = {split: end for split, end in ends.items() if self.live[split].latest(end) is not None}
        # Not the one with the greatest time: times may be equal, and one of them hours ahead.
        read_out = [split for split, end in ends.items() if read[split] >= end]
        last = max(read_out, key=lambda split: self.live[split].number, default=None)
        number = 0 if last is None else self.live[last].number
        newer = {split: end for split, end in ends.items() if self.live[split].number > number}
        return replace(self, holding=newer or ({} if last is None else {last: ends[last]}), last=last)

    def without_read(self, committed: Positions) -> ManifestStanding:
        """Return the standing without the manifests that are committed to their end, except for the last one."""
        live = {
            split: manifest
            for split, manifest in self.live.items()
            if split == self.last or committed.get(split, 0) < len(manifest)
        }
        return replace(self, live=live)

    def with_chunks(self, chunks: pa.Table) -> Step:
        """Create a manifest of chunks, if there are any."""
        if not len(chunks):
            return Step(self, {})
        manifest = Manifest.build(self.snapshot.number + 1, chunks)
        numbered = replace(self, snapshot=replace(self.snapshot, number=manifest.number))
        return Step(numbered.with_manifest(manifest), {manifest.id: manifest.data})

    def with_seen(self, seen: SeenObjects) -> Step:
        """Store the objects that were found so far."""
        new = {run.name: run.to_bytes() for run in seen.runs if run.name not in self.snapshot.runs}
        if not new and self.snapshot.seen is not None:
            # If the runs stay, so does the horizon in the offset: it may be behind, never ahead.
            return Step(self, {})
        return Step(replace(self, snapshot=replace(self.snapshot, seen=seen.snapshot())), new)

    def after_round(self, chunks: pa.Table, seen: SeenObjects) -> Step:
        """Take in the result of a round: its chunks are one manifest, and their objects are not found again."""
        with_chunks = self.with_chunks(chunks)
        noted = with_chunks.standing.with_seen(seen)
        return Step(noted.standing, {**with_chunks.files, **noted.files})

    def merged(self, read: Positions) -> Step:
        """Merge the rests of manifests, if there are too many: where that is enough, of those before ``last``.

        The last one itself stays, and so do those after it if they are few, because what is merged comes before them.
        """
        if len(self.live) <= MOST_MANIFESTS:
            return Step(self, {})
        number = 0 if self.last is None else self.live[self.last].number
        kept = {split: manifest for split, manifest in self.live.items() if manifest.number >= number}
        if len(kept) >= MOST_MANIFESTS:
            kept = {split: manifest for split, manifest in kept.items() if split == self.last}
        rests = {split: manifest for split, manifest in self.live.items() if split not in kept}
        chunks = [manifest.chunks(read.get(split, 0), len(manifest)) for split, manifest in rests.items()]
        merged = Manifest.build(self.greatest_number(rests), pa.Table.from_batches(chunks))
        if not len(merged):
            return Step(replace(self, live=kept), {})
        return Step(replace(self, live=kept).with_manifest(merged), {merged.id: merged.data})
