"""The S3 enumerator: a split is a manifest, which holds the chunks that one discovery round found.

A manifest's chunks stand in the order of their event times, so that its position is the number of
chunks read, its time index a bisection, and its end its length.  It is complete from the beginning:
once it is read, nobody need remember it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.cleaning.background import SourceCleaning
from tidegate.enumerators.s3.discovery.left_out import LEFT_OUT
from tidegate.enumerators.s3.discovery.rounds import ObjectDiscovery
from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.kept_options import KEPT_OPTIONS, keep_options
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.enumerators.s3.state.rereads import RereadRequests
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.state.snapshot import S3Snapshot
from tidegate.errors import OptionError
from tidegate.readers.objects.values import Chunk, S3Object

__all__ = ["S3Enumerator"]

_LOG = logging.getLogger("tidegate.planner")
_MOST_MANIFESTS = 8  # more are merged: the offset names each
_PATIENCE_S = 5.0  # for a round; one that takes longer goes on beside the plans
_OFFSETS_REMEMBERED = 4  # Spark may go back to the last one or two
_ORPHAN_S = 3600.0


class S3Enumerator(SplitEnumerator):
    """Enumerates manifests of objects.

    discovery: finds what is new.
    ledger: keeps manifests for a restart; None: a batch query, which needs none.
    state: the last run's snapshot.
    include_existing: read the objects that are there when the query begins.
    clean: cleans an object that was read for good, as SourceCleaning wants it; None: they stay.
    options: that may not change from run to run; see ``keep_options``.
    """

    positions_are_rows = False

    def __init__(
        self,
        discovery: ObjectDiscovery,
        ledger: Ledger | None,
        state: Json | None,
        *,
        include_existing: bool = True,
        clean: Callable[[S3Object], bool] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._discovery, self._clean, self._options = discovery, clean, options or {}
        self._lease: Lease | None = None
        self._include_existing = include_existing
        self._begins = state is None
        self._state = S3Snapshot() if state is None else S3Snapshot.from_json(state)
        self._location = ledger
        self._ledger = None if ledger is None else ledger.of_query(self._state.owner)
        self._cleaning: SourceCleaning | None = None
        self._noted = b""
        self._rereads: RereadRequests | None = None
        self._restored = False
        self._live: dict[SplitId, Manifest] = {}
        self._committed: Positions = {}
        self._offsets: deque[set[str]] = deque(maxlen=_OFFSETS_REMEMBERED)  # what each of them names
        self._swept: set[str] | None = None
        self._pool: DaemonThreads | None = None
        self._round: Future[ChunkSorter] | None = None

    def commit(self, positions: Positions) -> None:
        """Learn which manifests there are in the stored offset, and how far each was read."""
        is_news, self._committed = positions != self._committed, dict(positions)
        number = self._greatest_number(positions)
        self._discovery.stored(number)
        if self._rereads is not None:
            self._rereads.stored(number, {manifest.number for manifest in self._live.values()})
        if is_news:
            self._clean_what_is_read()

    def discover(self) -> Collection[SplitId]:
        """Return the manifests that are not read to their end, with one of what is new.

        The first call waits for its round to end, for a bounded run is to read all there is; one that
        begins a later round waits for some seconds, and leaves a longer one to the calls after it.
        """
        self._restore()
        patience_s = None if self._pool is None else _PATIENCE_S if self._round is None else 0.0
        self._clean_what_is_read()
        self._retire()
        self._finish_round(self._begin_round(), patience_s)
        self._read_again()
        self._merge()
        if self._cleaning is not None:
            self._cleaning.go_on(self._live)
            # No round found these chunks: the number stays that of the last one that did.
            self._cleaning.merge(lambda chunks: self._build(self._state.number, chunks))
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

    def overshoot_ms(self, ranges: Mapping[SplitId, SplitRange], bound_ms: int) -> int:
        """Return how far the latest record of the chunks, which are read whole, lies beyond a bound."""
        return max((self._manifest(s).overshoot_ms(r.start, r.end, bound_ms) for s, r in ranges.items()), default=0)

    def details(self, wanted: SplitRange) -> tuple[Chunk, ...]:
        """Return the chunks in a range."""
        columns = self._manifest(wanted.split_id).chunks(wanted.start, wanted.end).to_pydict()
        return tuple(map(Chunk._make, zip(*columns.values(), strict=True)))

    def snapshot(self) -> Json:
        """Return what was seen so far and what is left to clean, by the names of files, and who holds the lease."""
        self._remember_offset(self._live)
        now = self._state
        if self._cleaning is not None:
            now = replace(now, clean=self._cleaning.snapshot())
        if self._rereads is not None:
            now = replace(now, rereads=self._rereads.snapshot())
        return now.to_json()

    def metrics(self) -> Mapping[str, int]:
        """Return what became of objects besides being read, by this run."""
        return {**self._discovery.metrics(), **({} if self._cleaning is None else self._cleaning.metrics())}

    def close(self) -> None:
        """End the round that goes on, and let the next query have the ledger."""
        self._discovery.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._cleaning is not None:
            self._cleaning.close()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _manifest(self, split: SplitId) -> Manifest:
        if split not in self._live and self._ledger is not None:
            self._hold_lease()
            self._live[split] = _stored(self._ledger, split)
        return self._live[split]

    def _hold_lease(self) -> None:
        """Be alone in writing to the ledger, or raise ConnectorError; CheckpointError for options of another query."""
        if self._location is None or self._ledger is None:
            return
        if self._lease is None:
            lease = self._location.lease()
            lease.acquire(self._state.owner)
            self._lease = lease
        if self._options:
            keep_options(self._ledger, self._options)
            self._options = {}  # they are kept
        self._lease.check()

    def _restore(self) -> None:
        """Go on with the manifests and the memory that the first offset of this run names."""
        self._hold_lease()
        if self._ledger is None or self._restored:
            return
        for split in self._committed:
            self._manifest(split)
        stored = self._state
        # What is not noted anew, for now another way finds what is new, must not come back with this way.
        self._state = replace(stored, clean=None, rereads={}, between={})
        self._discovery.restore(stored.between)
        if stored.seen is not None:
            age_ms = self._discovery.seen.max_age_ms
            self._discovery.seen = SeenObjects.restored(stored.seen, self._ledger.read, age_ms)
        self._noted = self._ledger.noted(LEFT_OUT) or b""
        self._discovery.left_out.restore(self._noted)
        if self._clean is None:
            self._rereads = RereadRequests(self._ledger, stored.rereads)
        elif stored.rereads:
            raise OptionError(
                "cleanSource is set while objects are to be read again: let a run without it read them first"
            )
        else:
            self._cleaning = SourceCleaning(self._clean, partial(_stored, self._ledger), stored.clean or {})
        self._remember_offset(self._committed)
        self._restored = True

    def _named(self) -> set[str]:
        """Return the names of files in a snapshot taken now."""
        cleaning = () if self._cleaning is None else self._cleaning.snapshot()
        rereads = () if self._rereads is None else self._rereads.snapshot()
        return {*self._state.runs, *cleaning, *rereads}

    def _remember_offset(self, manifests: Collection[SplitId]) -> None:
        named = {*manifests, *self._named()}
        if not self._offsets or self._offsets[-1] != named:
            self._offsets.append(named)

    def _retire(self) -> None:
        for split in [s for s, manifest in self._live.items() if self._committed.get(s, 0) >= len(manifest)]:
            del self._live[split]

    def _begin_round(self) -> Future[ChunkSorter]:
        if self._pool is None:
            self._pool = DaemonThreads(1, "tidegate-discovery")
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
        self._state = replace(self._state, between=self._discovery.settle(self._greatest_number(self._live)))
        self._remember_seen()

    def _greatest_number(self, manifests: Collection[SplitId]) -> int:
        return max((self._live[s].number for s in manifests if s in self._live), default=0)

    def _add(self, chunks: ChunkSorter) -> None:
        self._state = replace(self._state, number=self._state.number + 1)
        manifest = self._build(self._state.number, chunks)
        self._live[manifest.id] = manifest
        _LOG.info("manifest %s holds %d chunks", manifest.id, len(manifest))

    def _build(self, number: int, chunks: ChunkSorter) -> Manifest:
        manifest = Manifest.build(number, chunks)
        if self._ledger is not None:
            self._ledger.write(manifest.id, manifest.data)
        return manifest

    def _remember_seen(self) -> None:
        if self._ledger is None:
            return
        seen = self._discovery.seen
        new = {run.name: run for run in seen.runs if run.name not in self._state.runs}
        for name, run in new.items():
            self._ledger.write(name, run.to_bytes())
        # Where the runs stay, so does the horizon in the offset: it may be behind, never ahead.
        if new or self._state.seen is None:
            self._state = replace(self._state, seen=seen.snapshot())
        noted = self._discovery.left_out.to_bytes()
        if noted != self._noted:
            self._ledger.note(LEFT_OUT, noted)
            self._noted = noted

    def _read_again(self) -> None:
        if self._rereads is None:
            return
        for name, chunks in self._rereads.pending().items():
            self._hold_lease()
            self._add(chunks)
            self._rereads.take(name, self._state.number)
            _LOG.info("%d chunks are read again, as %s asks", len(chunks), name)

    def _clean_what_is_read(self) -> None:
        if self._cleaning is None:
            return
        for split, end in self._committed.items():
            if end and split in self._live:
                self._cleaning.advance(self._live[split], end)
        self._cleaning.go_on(self._live)

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
        named = {LEFT_OUT, KEPT_OPTIONS, *self._live, *self._committed, *self._named()}
        if named == self._swept:
            return
        self._ledger.sweep(named.union(*self._offsets), _ORPHAN_S)
        self._swept = named


def _stored(ledger: Ledger, split: SplitId) -> Manifest:
    return Manifest.parse(split, ledger.read(split))
