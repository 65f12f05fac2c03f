"""Answers a planner's questions about manifests without a request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping

from tidegate.alignment.budget import Cost
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.readers.objects.values import Chunk

__all__ = ["ManifestIndex"]


class ManifestIndex(SplitEnumerator):
    """Answers for manifests; a subclass provides them."""

    positions_are_rows = False

    @property
    @abstractmethod
    def live(self) -> Mapping[SplitId, Manifest]:
        """The manifests that are not read to their end, by their names."""

    @abstractmethod
    def manifest(self, split: SplitId) -> Manifest:
        """Return a manifest by name, even if this run has not discovered it yet."""

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return 0 for each manifest: its first chunk."""
        del first
        return dict.fromkeys(splits, 0)

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return the length of each manifest."""
        return {s: Extent(0, len(self.live[s]), complete=True) for s in splits if s in self.live}

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Bisect."""
        return {s: self.live[s].lookup(event_time_ms) for s in splits}

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
