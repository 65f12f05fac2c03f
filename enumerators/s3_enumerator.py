"""The S3 enumerator: a split is a manifest, which holds the chunks that one discovery round found.

A manifest's chunks stand in the order of their event times, so that its position is the number of
chunks read, its time index a bisection, and its end its length.  It is complete from the beginning:
once it is read, nobody need remember it.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.enumerators.chunk_sorter import ChunkSorter
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.lease import Lease
from tidegate.enumerators.ledger import Ledger
from tidegate.enumerators.manifest import Manifest
from tidegate.enumerators.object_discovery import ObjectDiscovery
from tidegate.enumerators.seen_objects import SeenObjects
from tidegate.readers.objects import Chunk

__all__ = ["S3Enumerator"]

_LOG = logging.getLogger("tidegate.planner")
_MOST_MANIFESTS = 8  # more are merged: the offset names each
_PATIENCE_S = 5.0  # for a round; one that takes longer goes on beside the plans
_OFFSETS_REMEMBERED = 4  # Spark may go back to the last one or two
_ORPHAN_S = 3600.0
_OURS = re.compile(r"seen-[0-9a-f]+|[0-9]+-[0-9a-f]+")  # the names of memories and of manifests


class S3Enumerator(SplitEnumerator):
    """Enumerates manifests of objects.

    discovery: finds what is new.
    ledger: keeps manifests for a restart; None: a batch query, which needs none.
    state: the last run's snapshot: what was seen, the last manifest's number, and the owner of the lease.
    include_existing: read the objects that are there when the query begins.
    """

    positions_are_rows = False

    def __init__(
        self,
        discovery: ObjectDiscovery,
        ledger: Ledger | None,
        state: Json | None,
        *,
        include_existing: bool = True,
    ) -> None:
        self._discovery, self._ledger = discovery, ledger
        self._lease: Lease | None = None
        self._include_existing = include_existing
        self._begins = state is None
        # A copy: what came is a part of the start offset, which may be given back as it was.
        self._state: Json = dict(state or {"owner": uuid.uuid4().hex[:12], "number": 0, "seen": None})
        self._restored = False
        self._live: dict[SplitId, Manifest] = {}
        self._committed: Positions = {}
        self._offsets: deque[set[str]] = deque(maxlen=_OFFSETS_REMEMBERED)  # what each of them names
        self._swept: set[str] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._round: Future[ChunkSorter] | None = None

    def commit(self, positions: Positions) -> None:
        """Learn which manifests there are in the stored offset, and how far each was read."""
        self._committed = dict(positions)

    def discover(self) -> Collection[SplitId]:
        """Return the manifests that are not read to their end, with one of what is new.

        The first call waits for its round to end, for a bounded run is to read all there is; one that
        begins a later round waits for some seconds, and leaves a longer one to the calls after it.
        """
        self._restore()
        patience_s = None if self._pool is None else _PATIENCE_S if self._round is None else 0.0
        self._retire()
        self._finish_round(self._begin_round(), patience_s)
        self._merge()
        self._sweep()
        return list(self._live)

    def forget(self, removed: Positions) -> Collection[SplitId]:
        """Return them all: a manifest goes only when it is read, or when its rest stands in another."""
        return removed.keys()

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Begin every manifest at its first chunk."""
        del first
        return dict.fromkeys(splits, 0)

    def stops(self, splits: Collection[SplitId]) -> Mapping[SplitId, int | None]:
        """No manifest has a configured end."""
        return dict.fromkeys(splits)

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return the length of each manifest."""
        return {s: Extent(0, len(self._live[s]), complete=True) for s in splits if s in self._live}

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Bisect."""
        return {s: self._live[s].lookup(event_time_ms) for s in splits}

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the next chunk with an event time, by its least."""
        return {s: self._live[s].head(position) for s, position in positions.items()}

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return the greatest event time of the chunks before each end."""
        return {s: self._live[s].latest(end) for s, end in ends.items()}

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return rows, bytes and objects; rows of line formats are estimates."""
        costs = [self._manifest(s).cost(r.start, r.end) for s, r in ranges.items()]
        return Cost(sum(c.rows for c in costs), sum(c.bytes for c in costs), sum(c.files for c in costs))

    def details(self, wanted: SplitRange) -> tuple[Chunk, ...]:
        """Return the chunks in a range."""
        columns = self._manifest(wanted.split_id).chunks(wanted.start, wanted.end).to_pydict()
        return tuple(map(Chunk._make, zip(*columns.values(), strict=True)))

    def snapshot(self) -> Json:
        """Return what was seen so far, by the name of its file, and who holds the lease."""
        self._remember_offset(self._live)
        return dict(self._state)

    def close(self) -> None:
        """End the round that goes on, and let the next query have the ledger."""
        self._discovery.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _manifest(self, split: SplitId) -> Manifest:
        if split not in self._live and self._ledger is not None:
            self._hold_lease()
            self._live[split] = Manifest.parse(split, self._ledger.read(split))
        return self._live[split]

    def _hold_lease(self) -> None:
        """Be alone in writing to the ledger, or raise ConnectorError."""
        if self._ledger is None:
            return
        if self._lease is None:
            lease = self._ledger.lease()
            lease.acquire(self._state["owner"])
            self._lease = lease
        self._lease.check()

    def _restore(self) -> None:
        """Go on with the manifests and the memory that the first offset of this run names."""
        self._hold_lease()
        if self._ledger is None or self._restored:
            return
        for split in self._committed:
            self._manifest(split)
        self._remember_offset(self._committed)
        if (name := self._state["seen"]) is not None:
            seen = SeenObjects.from_bytes(self._ledger.read(name))
            seen.max_age_ms = self._discovery.seen.max_age_ms
            self._discovery.seen = seen
        self._restored = True

    def _remember_offset(self, manifests: Collection[SplitId]) -> None:
        named = {*manifests, str(self._state["seen"])}
        if not self._offsets or self._offsets[-1] != named:
            self._offsets.append(named)

    def _retire(self) -> None:
        for split in [s for s, manifest in self._live.items() if self._committed.get(s, 0) >= len(manifest)]:
            del self._live[split]

    def _begin_round(self) -> Future[ChunkSorter]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "tidegate-discovery")
        if self._round is None:
            existing = self._include_existing or not self._begins
            self._round = self._pool.submit(self._discovery.round, existing=existing)
        return self._round

    def _finish_round(self, round_: Future[ChunkSorter], patience_s: float | None) -> None:
        if not wait([round_], patience_s).done:
            return
        self._round = None
        chunks = round_.result()
        self._hold_lease()
        self._begins = False
        if len(chunks):
            self._add(chunks)
        self._remember_seen()

    def _add(self, chunks: ChunkSorter) -> None:
        self._state["number"] += 1
        manifest = Manifest.build(self._state["number"], chunks)
        if self._ledger is not None:
            self._ledger.write(manifest.id, manifest.data)
        self._live[manifest.id] = manifest
        _LOG.info("manifest %s holds %d chunks", manifest.id, len(manifest))

    def _remember_seen(self) -> None:
        if self._ledger is None:
            return
        data = self._discovery.seen.to_bytes()
        name = f"seen-{SeenObjects.digest(data)}"
        if name != self._state["seen"]:
            self._ledger.write(name, data)
            self._state["seen"] = name

    def _merge(self) -> None:
        """Make one manifest of the rests of all, where there are too many."""
        if len(self._live) <= _MOST_MANIFESTS:
            return
        rests = ChunkSorter()
        for split, manifest in self._live.items():
            rests.add(manifest.chunks(self._committed.get(split, 0), len(manifest)))
        self._live.clear()
        self._add(rests)

    def _sweep(self) -> None:
        """Delete what no offset names, whether Spark has stored it or is about to."""
        if self._ledger is None:
            return
        named = {*self._live, *self._committed, str(self._state["seen"])}
        if named == self._swept:
            return
        others = {name for name in self._ledger.names() if not _OURS.fullmatch(name)}
        self._ledger.sweep(named.union(others, *self._offsets), _ORPHAN_S)
        self._swept = named
