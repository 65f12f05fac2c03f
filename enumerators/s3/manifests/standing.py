"""The standing of a query over manifests, and the one that follows a discovery round.

Pure: each step returns the next standing and the files that are to be written before it counts.  A file never
changes, so a step that is cut off between its files leaves only some that no offset names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.state.snapshot import S3Snapshot

__all__ = ["MOST_MANIFESTS", "Standing", "Step"]

MOST_MANIFESTS = 8
"""More are merged, for the offset names each."""


class Step(NamedTuple):
    """The outcome of a step.

    files: to be written, by name.
    """

    standing: Standing
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Standing:
    """The manifests that are not read to their end, and what the snapshot says besides of what was found.

    snapshot: with the number of the last manifest; its ``clean`` and ``rereads`` are those of others.
    live: in the order in which they came.
    """

    snapshot: S3Snapshot
    live: Mapping[SplitId, Manifest] = field(default_factory=dict)

    def greatest_number(self, splits: Positions | Mapping[SplitId, Manifest]) -> int:
        """Return the number of the last one of some manifests that is live; 0: none is."""
        return max((self.live[split].number for split in splits if split in self.live), default=0)

    def with_manifest(self, manifest: Manifest) -> Standing:
        """Return the standing with a manifest that is stored."""
        return replace(self, live={**self.live, manifest.id: manifest})

    def without_read(self, committed: Positions) -> Standing:
        """Return the standing without the manifests that are committed to their end."""
        unread = {split: manifest for split, manifest in self.live.items() if committed.get(split, 0) < len(manifest)}
        return replace(self, live=unread)

    def with_chunks(self, chunks: ChunkSorter) -> Step:
        """Make a manifest of chunks, unless there are none."""
        if not len(chunks):
            return Step(self, {})
        manifest = Manifest.build(self.snapshot.number + 1, chunks)
        numbered = replace(self, snapshot=replace(self.snapshot, number=manifest.number))
        return Step(numbered.with_manifest(manifest), {manifest.id: manifest.data})

    def with_seen(self, seen: SeenObjects) -> Step:
        """Note which objects were found so far."""
        new = {run.name: run.to_bytes() for run in seen.runs if run.name not in self.snapshot.runs}
        if not new and self.snapshot.seen is not None:
            # Where the runs stay, so does the horizon in the offset: it may be behind, never ahead.
            return Step(self, {})
        return Step(replace(self, snapshot=replace(self.snapshot, seen=seen.snapshot())), new)

    def after_round(self, chunks: ChunkSorter, seen: SeenObjects) -> Step:
        """Take in what a round found: its chunks are one manifest, and their objects are not found again."""
        found = self.with_chunks(chunks)
        noted = found.standing.with_seen(seen)
        return Step(noted.standing, {**found.files, **noted.files})

    def merged(self, committed: Positions) -> Step:
        """Make one manifest of the rests of all, where there are too many."""
        if len(self.live) <= MOST_MANIFESTS:
            return Step(self, {})
        rests = ChunkSorter()
        for split, manifest in self.live.items():
            rests.add(manifest.chunks(committed.get(split, 0), len(manifest)))
        return replace(self, live={}).with_chunks(rests)
