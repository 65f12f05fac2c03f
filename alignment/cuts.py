"""Cuts splits at an event time, with an index or by probing.

An index is a witness, not a judge: every answer of a ``lookup`` is a candidate.  It counts if it is an unread record at
or after the time, and the record before it is older.  Otherwise the index is *blind* there: a Kafka transaction marker
carries the wall clock, and some brokers answer with a later record, or with none.  Blind splits, and all splits of a
source without an index, are bisected by peeks (rule 6 of ``docs/planning.md``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidegate.alignment.bisection import Bisection
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent, Head, Positions, SplitId

_SPEAKERS = 16  # how many splits a sample asks


class Span(NamedTuple):
    """The unread part of a split: its head, and the positions from the head, or holes before it, to the end.

    start: inclusive.
    end: exclusive; after the head.
    """

    head: Head
    start: int
    end: int


class Cut(NamedTuple):
    """The end of a batch within a split.

    position: exclusive end of the batch; between the span's start and its end.
    next_ms: event time of the first record after the cut, or a lower bound for it; None: the span has no record there.
    exact: False when the cut was found by probing; it is then right up to the split's disorder.
    """

    position: int
    next_ms: int | None
    exact: bool = True


class Cutter:
    """Cuts the spans of one plan at event times.

    Each plan creates a new cutter.  One cut helps to find the next, but a plan starts from the spans alone.  So a
    restarted query asks the same questions and makes the same cuts.
    """

    def __init__(self, index: TimeIndex, spans: Mapping[SplitId, Span]) -> None:
        self._index = index
        self._spans = spans
        self._blind: set[SplitId] = set() if index.sees else set(spans)
        self._seen: dict[SplitId, list[tuple[int, Head | None]]] = {}

    def cut(self, event_time_ms: int) -> dict[SplitId, Cut]:
        """Return the cut of each span at an event time."""
        while True:
            cuts = self.sharpened(event_time_ms, self.candidates(event_time_ms))
            if self.confirm(event_time_ms, cuts):
                return cuts

    def candidates(self, event_time_ms: int) -> dict[SplitId, Cut]:
        """Return the approximate cut of each span at an event time, not yet confirmed.

        A cut by probing is never before the right one, and past it by at most a sixteenth of its rows.  So cuts that
        fit a budget still fit it when they are sharpened.
        """
        cuts: dict[SplitId, Cut] = {}
        asked: dict[SplitId, int] = {}
        probed: list[SplitId] = []
        for split, ((position, head_ms), start, _) in self._spans.items():
            if head_ms >= event_time_ms:
                cuts[split] = Cut(start, head_ms)
            elif split in self._blind:
                probed.append(split)
            else:
                asked[split] = position
        for split, candidate in self._index.lookup(event_time_ms, asked).items():
            span = self._spans[split]
            if candidate is None or candidate.position >= span.end:
                cuts[split] = Cut(span.end, None)
            elif candidate.position > span.head.position and candidate.event_time_ms >= event_time_ms:
                cuts[split] = Cut(candidate.position, candidate.event_time_ms)
            else:
                # Rule 6: the record that the index answered with was already read, or is older.
                self._blind.add(split)
                probed.append(split)
        cuts.update(self._bisect(event_time_ms, probed))
        return cuts

    def sharpened(self, event_time_ms: int, cuts: Mapping[SplitId, Cut]) -> dict[SplitId, Cut]:
        """Return candidates; those that were found by probing are moved to the exact record.

        Otherwise one split would be read further than another, and a watermark could pass unread records (rule 6).
        """
        probed = [split for split, cut in cuts.items() if not cut.exact]
        return {**cuts, **self._bisect(event_time_ms, probed, exact=True)}

    def confirm(self, event_time_ms: int, cuts: Mapping[SplitId, Cut]) -> bool:
        """Return whether the index was right about every cut at an event time; each other split is blind from now on.

        The record before a cut must be older, and the cut, unless it is the end, must be at a record to align by.
        """
        spans = self._spans
        doubtful = {s: cut.position for s, cut in cuts.items() if cut.exact and cut.position > spans[s].start}
        last = self._index.last_before({s: Extent(spans[s].head.position, at) for s, at in doubtful.items()})
        wrong = {s for s, head in last.items() if head is None or head.event_time_ms >= event_time_ms}
        # These come last: peeks at the records before them have often seen them.
        inside = {s: at for s, at in doubtful.items() if s not in wrong and at < spans[s].end}
        heads = self._index.heads(inside)
        wrong |= {s for s in inside if heads[s] != (cuts[s].position, cuts[s].next_ms)}
        self._blind |= wrong
        return not wrong

    def sample(self, low: Mapping[SplitId, Cut], high: Mapping[SplitId, Cut], share: float) -> int | None:
        """Return an event time before which about the given share of the records between two cuts lies.

        Peeks at that share of each split and takes the median, weighted by the records between the cuts.  However
        unevenly times are spread, the next cut there leaves much less in doubt.  Only the largest splits are asked.
        None: nothing is between the cuts.

        low: the lower cuts; if empty, the heads are used.
        """
        first = {s: max(span.head.position, low[s].position if low else 0) for s, span in self._spans.items()}
        between = {s: width for s, cut in high.items() if (width := cut.position - first[s]) > 0}
        largest = sorted(between, key=lambda s: (-between[s], s))[:_SPEAKERS]
        heads = self._peek({s: first[s] + int(between[s] * share) for s in largest})
        times = sorted((head.event_time_ms, between[s]) for s, head in heads.items() if head is not None)
        remaining = sum(weight for _, weight in times) / 2
        for time_ms, weight in times:
            remaining -= weight
            if remaining <= 0:
                return time_ms
        return None

    def _peek(self, positions: Positions) -> dict[SplitId, Head | None]:
        heads = self._index.heads(positions)
        for split, position in positions.items():
            self._seen.setdefault(split, []).append((position, heads[split]))
        return heads

    def _bisect(self, event_time_ms: int, splits: Collection[SplitId], *, exact: bool = False) -> dict[SplitId, Cut]:
        """Cut blind splits; each round peeks into all of them with one request."""
        searches = {}
        for split in splits:
            span = self._spans[split]
            searches[split] = Bisection(span.head, span.end, event_time_ms, self._seen.get(split, ()), exact=exact)
        while asked := {s: position for s, search in searches.items() if (position := search.question()) is not None}:
            for split, head in self._peek(asked).items():
                searches[split].answer(asked[split], head)
        return {split: Cut(*search.result(), exact=False) for split, search in searches.items()}
