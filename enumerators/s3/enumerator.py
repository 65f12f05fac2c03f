"""The S3 enumerator: a split is a manifest, which holds the chunks of one discovery round.

A manifest's chunks are in the order of their event times, so its position is the number of chunks read, its time index
a bisection, and its end its length.  It is complete from the beginning, and forgotten once it is read; only in a group
the last one that was read stays, because others may follow it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import NEVER_MS, Extent, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.enumerators.contract import Completeness, Json, SplitEnumerator
from tidegate.enumerators.s3.cleaning import SourceCleaning
from tidegate.enumerators.s3.discovery.complete_folders import CompleteFolders
from tidegate.enumerators.s3.discovery.rounds import LEFT_OUT, BackgroundRounds, ObjectDiscovery
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.standing import ManifestStanding, S3Snapshot, Step
from tidegate.enumerators.s3.state.ledger import Ledger, QueryFolder
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.readers.objects.values import Chunk, S3Object

_LOG = logging.getLogger("tidegate.planner")


class S3Enumerator(SplitEnumerator):
    """Enumerates manifests of objects; answers about them need no request.

    ledger: keeps manifests for a restart; None: a batch query, which needs no ledger.
    include_existing: read the objects that exist when the query begins.
    holds_group: the last manifest that was read is not complete, as another round may go on from there.  So its source
        holds back the others of its group until it is idle, and not only while it has unread objects.
    clean: cleans an object once it is read and committed, see SourceCleaning; None: objects stay.
    options: the options that may not change from run to run; see QueryFolder.
    """

    positions_are_rows = False
    new_splits_are_news = False  # each round that finds objects makes one

    def __init__(
        self,
        discovery: ObjectDiscovery,
        ledger: Ledger | None,
        state: Json | None,
        *,
        include_existing: bool = True,
        holds_group: bool = False,
        clean: Callable[[S3Object], bool] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._discovery, self._notifications, self._clean = discovery, discovery.notifications, clean
        self._takes_existing, self._holds_group = include_existing or state is not None, holds_group
        stored = S3Snapshot(uuid.uuid4().hex[:12], 0, None) if state is None else S3Snapshot.from_json(state)
        self._standing = ManifestStanding(stored)
        self._folder = None if ledger is None else QueryFolder(ledger, self._standing.snapshot.owner, options or {})
        self._cleaning: SourceCleaning | None = None
        self._restored = False
        self._committed: Positions = {}
        self._read, self._held_from_ms = self._committed, NEVER_MS
        # What had been read when the running round began, and where the last round found nothing after it.
        self._looks_after: Positions | None = None
        self._nothing_after: Positions | None = None
        self._folders: CompleteFolders | None = None
        self._rounds = BackgroundRounds(lambda: discovery.round(existing=self._takes_existing))

    @property
    def live(self) -> Mapping[SplitId, Manifest]:
        """The manifests that are not read to their end, and in a group the last one that is."""
        return self._standing.live

    def manifest(self, split: SplitId) -> Manifest:
        """Return a manifest by name, even if this run has not discovered it yet."""
        if split not in self.live and self._folder is not None:
            self._folder.hold()
            self._standing = self._standing.with_manifest(self._folder.manifest(split))
        return self.live[split]

    def begin_plan(self, positions: Positions, held_from_ms: int) -> None:
        """Take in how far manifests were read, where a generator may still need less, and which chunks wait."""
        self._read, self._held_from_ms = dict(positions), held_from_ms
        self._find_holding()

    def commit(self, positions: Positions) -> None:
        """Take in the manifests in the stored offset, and how far each was read."""
        is_news, self._committed = positions != self._committed, dict(positions)
        number = self._standing.greatest_number(positions)
        if self._notifications is not None:
            self._notifications.held.stored(number)
        if is_news:
            self._clean_what_is_read(positions, self.live)

    def discover(self) -> Collection[SplitId]:
        """Return the live manifests, including a new one for new objects.

        The first call waits for its round, and later ones for some seconds; see BackgroundRounds.
        """
        self._restore()
        self._clean_what_is_read(self._committed, self.live)
        self._find_holding()
        self._standing = self._standing.without_read(self._committed)
        if not self._rounds.is_running:
            self._looks_after = holding if self._standing.last in (holding := self._standing.holding) else None
        chunks = self._rounds.found()
        if chunks is not None:
            self._nothing_after = None if len(chunks) else self._looks_after
            self._take_in(chunks)
        # A merged manifest begins after what was read: a generator that has not seen all of that no longer can.
        merged = self._standing.merged(self._read)
        self._clean_what_is_read(self._read, self.live.keys() - merged.standing.live.keys())
        self._adopt(merged)
        self._find_holding()
        if self._cleaning is not None:
            self._cleaning.go_on(self.live)
            self._cleaning.merge(self._store_aside)
        self._sweep()
        return list(self.live)

    def forget(self, removed: Positions) -> Collection[SplitId]:
        """Return all of them: a manifest disappears only once it is read, or when its rest is in another one."""
        return removed.keys()

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return 0 for each manifest: its first chunk."""
        del first
        return dict.fromkeys(splits, 0)

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return the length of each manifest.

        One that holds back a group ends where the future begins.  It is not settled, and its idle timer does not run,
        before a round has looked for others: without that, time alone would make it idle.
        """
        holding, live = self._standing.holding, self.live
        unsettled = self._standing.last if holding != self._nothing_after else None
        return {
            s: Extent(0, holding.get(s, len(live[s])), settled=s != unsettled, complete=s not in holding)
            for s in splits
            if s in live
        }

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Bisect."""
        return {s: self.live[s].lookup(event_time_ms) for s in positions}

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the next chunk with an event time, and its earliest time; discovery has left out others for good."""
        del horizon
        return {s: self.live[s].head(position) for s, position in positions.items()}

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Return the greatest event time of the chunks before each end."""
        del horizon
        return {s: self.live[s].latest(end) for s, end in ends.items()}

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return rows, bytes and objects; rows of line formats are estimates."""
        costs = [self.manifest(s).cost(r.start, r.end) for s, r in ranges.items()]
        return Cost(sum(c.rows for c in costs), sum(c.bytes for c in costs), sum(c.files for c in costs))

    def overshoot_ms(self, ranges: Mapping[SplitId, SplitRange], bound_ms: int) -> int:
        """Return how far the latest record of the chunks, which are read whole, passes a bound."""
        return max((self.manifest(s).overshoot_ms(r.start, r.end, bound_ms) for s, r in ranges.items()), default=0)

    def details(self, wanted: SplitRange) -> tuple[Chunk, ...]:
        """Return the chunks in a range."""
        columns = self.manifest(wanted.split_id).chunks(wanted.start, wanted.end).to_pydict()
        return tuple(map(Chunk._make, zip(*columns.values(), strict=True)))

    def snapshot(self) -> Json:
        """Return the objects seen and the chunks to clean, by the names of files, and the holder of the lease."""
        if self._folder is not None:
            self._folder.remember({*self.live, *self._named()})
        now = self._standing.snapshot
        if self._cleaning is not None:
            now = replace(now, clean=self._cleaning.snapshot())
        return now.to_json()

    def metrics(self) -> Mapping[str, int]:
        """Return the metrics of discovery and cleaning in this run."""
        return {**self._discovery.metrics(), **({} if self._cleaning is None else self._cleaning.metrics())}

    def completeness(self) -> Completeness:
        """Return the event time up to which folders are complete, by their markers."""
        folders = self._folders
        if folders is None:
            return Completeness(None, None)
        return Completeness(folders.complete_ms, folders.holding_ms)

    def close(self) -> None:
        """End the running round, and release the ledger."""
        self._discovery.stop()
        self._rounds.close()
        if self._cleaning is not None:
            self._cleaning.close()
        if self._folder is not None:
            self._folder.release()

    def _find_holding(self) -> None:
        if self._holds_group:
            self._standing = self._standing.with_holding(self._read, self._held_from_ms)

    def _restore(self) -> None:
        """Restore the manifests and the memory that the first offset of this run names."""
        if self._folder is None:
            return
        self._folder.hold()
        if self._restored:
            return
        for split in self._committed:
            self.manifest(split)
        stored = self._standing.snapshot
        if self._notifications is not None and self._notifications.queue == stored.queue:
            self._notifications.listed_ms = stored.listed_ms
        if stored.seen is not None:
            age_ms = self._discovery.seen.max_age_ms
            self._discovery.seen = SeenObjects.restored(stored.seen, self._folder.ledger.read, age_ms)
        self._discovery.left_out.restore(self._folder.noted(LEFT_OUT))
        if self._discovery.folders is not None:
            self._discovery.folders.restore(stored.folders)
            self._folders = self._discovery.folders.known
        if self._clean is not None:
            self._cleaning = SourceCleaning(self._clean, self._folder.manifest, stored.clean or {})
        self._folder.remember({*self._committed, *self._named()})
        # Only when all is restored, because another attempt needs it.  What this run does not store must not come back.
        kept = replace(stored, clean=None, listed_ms=None, queue=None, folders=None)
        self._standing = replace(self._standing, snapshot=kept)
        self._restored = True

    def _take_in(self, chunks: pa.Table) -> None:
        """Continue from the objects that a round found."""
        self._takes_existing = True
        number = self._standing.snapshot.number
        if self._folder is None:
            self._adopt(self._standing.with_chunks(chunks))
        else:
            self._folder.hold()
            self._adopt(self._standing.after_round(chunks, self._discovery.seen))
            self._folder.note(LEFT_OUT, self._discovery.left_out.to_bytes())
        folders = None if self._discovery.folders is None else self._discovery.folders.known
        if folders == self._folders or self._standing.snapshot.number > number:
            number = self._standing.greatest_number(self.live)
        else:
            # A marker without objects does not create a manifest.  The offset with the next manifest certainly holds
            # it.
            number += 1
        listed_ms = queue = None
        if self._notifications is not None:
            self._notifications.held.end_round(number)
            listed_ms, queue = self._notifications.listed_ms, self._notifications.queue
        noted = None if folders is None else folders.to_json()
        snapshot = replace(self._standing.snapshot, listed_ms=listed_ms, queue=queue, folders=noted)
        self._standing, self._folders = replace(self._standing, snapshot=snapshot), folders

    def _adopt(self, step: Step) -> None:
        """Write the files of a step, and continue from its standing."""
        if self._folder is not None:
            self._folder.write(step.files)
        for split in step.standing.live.keys() - self.live.keys():
            _LOG.info("manifest %s holds %d chunks", split, len(step.standing.live[split]))
        self._standing = step.standing

    def _clean_what_is_read(self, positions: Positions, splits: Collection[SplitId]) -> None:
        if self._cleaning is None:
            return
        for split, end in positions.items():
            if end and split in splits:
                self._cleaning.advance(self.live[split], end)
        self._cleaning.go_on(self.live)

    def _store_aside(self, chunks: pa.Table) -> Manifest:
        """Store a manifest of chunks that no round found: the number stays that of the last round's."""
        manifest = Manifest.build(self._standing.snapshot.number, chunks)
        if self._folder is not None:
            self._folder.write({manifest.id: manifest.data})
        return manifest

    def _named(self) -> set[str]:
        """Return the names of files in a snapshot taken now, except the manifests."""
        cleaning = () if self._cleaning is None else self._cleaning.snapshot()
        return {*self._standing.snapshot.runs, *cleaning}

    def _sweep(self) -> None:
        if self._folder is not None:
            self._folder.sweep({*self.live, *self._committed, *self._named()})
