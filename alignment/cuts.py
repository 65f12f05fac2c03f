"""Cuts splits at an event time, with an index or by probing, which looks at single records.

An index is a witness, not a judge: every answer of a ``lookup`` is a candidate.  It counts if it is an unread record at
or after the time, and the record before it is older.  Otherwise the index is *blind* there: a Kafka transaction marker
carries the wall clock, and some brokers answer with a later record, or with none.  Blind splits, and all splits of a
source without an index, are bisected by peeks (rule 6 of ``docs/planning.md``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import isqrt
from typing import NamedTuple, TypeAlias

from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent, Head, Positions, SplitId

_FIRST_STEP = 2048  # positions
_STRIDE = 8
_GOOD_ENOUGH = 16


class Bisection:
    """The search for the first record at or after an event time, in one split.

    The answer is between ``low``, a record before the time, and ``high``, a position at which no record before the time
    was seen.  The search interpolates by event time, and halves now and then because event times need not be spread
    evenly.

    head: the first unread record; before the time.
    known: earlier peeks, each as the position that was asked for and its answer.
    exact: continue until the record itself is found, however few positions are left.
    """

    def __init__(
        self,
        head: Head,
        end: int,
        event_time_ms: int,
        known: Iterable[tuple[int, Head | None]] = (),
        *,
        exact: bool = False,
    ) -> None:
        self._time_ms = event_time_ms
        self._exact = exact
        self._first = head.position
        self._low = head
        self._high = self._end = end
        self._high_ms: int | None = None
        self._asked = 0
        self._side = 0
        self._step = _FIRST_STEP // _STRIDE
        for position, answer in sorted(known, key=lambda peek: peek[0]):
            self.answer(position, answer)

    def question(self) -> int | None:
        """Return the position to peek at next; None: the remaining positions are not worth a request."""
        first, last = self._low.position + 1, self._high - 1
        worth_asking = 0 if self._exact else (self._low.position - self._first) // _GOOD_ENOUGH
        if last - first < worth_asking:
            return None
        self._asked += 1
        if self._high_ms is None and self._high < self._end:
            # Holes up to the end, or the inside of one long record: positions need not be records.
            return (first + last) // 2
        if self._high_ms is None:
            # Nothing is known about the far side: gallop, so that a cut nearby costs few peeks.  The next plans ask for
            # the same round positions again, and the index remembers the answers.
            self._step *= _STRIDE
            return min(last, (self._low.position // self._step + 2) * self._step)
        if self._asked % 3 == 0:
            return (first + last) // 2
        share = (self._time_ms - self._low.event_time_ms) / (self._high_ms - self._low.event_time_ms)
        # A guess that is slightly off would leave all the rest in doubt.  Overstep, to close in from both sides.
        nudge = isqrt(last - first) * self._side
        return min(last, max(first, first + int((last - first) * share) + nudge))

    def answer(self, asked: int, head: Head | None) -> None:
        """Take the first record at or after the position that was asked for."""
        if asked >= self._high:
            return  # rule 5: behind a record at or past the time there is disorder, which must not move the cut past it
        if head is None or head.position >= self._high:
            self._high = asked
        elif head.event_time_ms >= self._time_ms:
            self._high, self._high_ms, self._side = asked, head.event_time_ms, -1
        elif head.position > self._low.position:
            self._low, self._side = head, 1

    def result(self) -> tuple[int, int | None]:
        """Return the position of the cut, and the event time of the next record.

        The cut is never before the record that was searched for; with ``exact`` it is at that record.
        """
        return self._high, self._high_ms


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


Cuts: TypeAlias = Mapping[SplitId, Cut]


class Cutter:
    """Cuts the spans of one plan at event times.

    Each plan creates a new cutter.  One cut helps to find the next, but a plan starts from the spans alone, so a
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

        A cut by probing is never before the right one, and past it by at most a sixteenth of its rows, so cuts that
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
