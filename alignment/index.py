"""Where to cut splits at an event time: the time index and its blind spots.

A connector that knows where event times stand offers ``SupportsTimeIndex``; any other offers
``SupportsPeek`` alone.  ``TimeIndex`` makes one thing of both for the planner.  It trusts no
answer of a ``lookup`` that it has not seen to be a record (DESIGN rule "candidate"): a lookup is
*blind* where it answers with a position that is already read, or with something that is no record
(a Kafka transaction marker, which carries the wall clock).  Blind splits are bisected by peeks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tidegate.alignment.splits import Head, Positions, SplitId

__all__ = ["Cut", "Span", "SupportsPeek", "SupportsTimeIndex", "TimeIndex"]


@runtime_checkable
class SupportsPeek(Protocol):
    """Can look at single records on the driver."""

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return for each split its first record at or after the position; None: none up to the end.

        Called by the planner a few times per batch, for many splits at once.  Everything that is
        not a record to align by is stepped over: holes, control records, aborted records, records
        whose time is to be ignored.  Must see what a reader would deliver, no more and no less.
        """

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return for each split the greatest event time in ms among the records before its end.

        Called for splits that are read to their end.  May be too small but never too great: a
        record at or after the end must not count.  None: the split holds no record before it.
        """


@runtime_checkable
class SupportsTimeIndex(SupportsPeek, Protocol):
    """Knows where event times stand without reading."""

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Return for each split its first record, of all it holds, at or after an event time.

        Called by the planner a few times per batch.  None: no such record now.  The answer is a
        candidate: it may lie before what is still unread, and it may be no record at all.
        """


@dataclass(frozen=True, slots=True)
class Span:
    """The unread part of a split: its head, and the exclusive end up to which it may be read."""

    head: Head
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a batch ends within a split.

    position: exclusive end of the batch; between the span's start and its end.
    next_ms: event time of the first record after the cut, or a lower bound of it; None: the span
        holds none.
    exact: False when the cut was found by probing: then it is right up to the split's disorder.
    """

    position: int
    next_ms: int | None
    exact: bool = True


class TimeIndex:
    """Answers where to cut, for the planner.

    Keeps what it has seen of records, to save requests and never to decide: an index that has
    forgotten everything gives the same answers.
    """

    def __init__(self, source: SupportsPeek) -> None:
        self._source = source
        self._lookup = source.lookup if isinstance(source, SupportsTimeIndex) else None
        self._seen: dict[SplitId, dict[int, Head]] = {}
        self._latest: dict[SplitId, tuple[int, int | None]] = {}
        self.lookups = 0
        self.peeks = 0

    def forget_before(self, positions: Positions) -> None:
        """Drop what was seen of records that are read by now, and of splits that are gone."""
        self._seen = {
            split: kept
            for split, heads in self._seen.items()
            if split in positions
            and (kept := {asked: head for asked, head in heads.items() if head.position >= positions[split]})
        }
        self._latest = {split: known for split, known in self._latest.items() if split in positions}

    def heads(self, positions: Positions) -> dict[SplitId, Head | None]:
        """Return for each split its first record at or after the position; None: none yet."""
        known: dict[SplitId, Head | None] = {}
        unknown: dict[SplitId, int] = {}
        for split, position in positions.items():
            seen = self._seen.get(split, {}).get(position)
            if seen is None:
                unknown[split] = position
            else:
                known[split] = seen
        if unknown:
            self.peeks += 1
            for split, head in self._source.peek(unknown).items():
                known[split] = head
                if head is not None:
                    heads = self._seen.setdefault(split, {})
                    heads[unknown[split]] = heads[head.position] = head
        return known

    def latest(self, ends: Positions) -> dict[SplitId, int | None]:
        """Return for each split the greatest event time before its end; None: it holds no record."""
        stale = {split: end for split, end in ends.items() if self._latest.get(split, (None,))[0] != end}
        if stale:
            self.lookups += 1
            answers = self._source.latest(stale)
            self._latest.update({split: (end, answers[split]) for split, end in stale.items()})
        return {split: self._latest[split][1] for split in ends}

    def candidates(self, event_time_ms: int, spans: Mapping[SplitId, Span], blind: set[SplitId]) -> dict[SplitId, Cut]:
        """Return where each span is to be cut at an event time, not yet confirmed.

        A split found blind on the way is added to ``blind``; splits in ``blind`` are probed.
        """
        cuts: dict[SplitId, Cut] = {}
        asked = []
        for split, span in spans.items():
            if span.head.event_time_ms >= event_time_ms:
                cuts[split] = Cut(span.start, span.head.event_time_ms)
            elif self._lookup is None:
                blind.add(split)
            elif split not in blind:
                asked.append(split)
        if asked and self._lookup is not None:
            self.lookups += 1
            for split, found in self._lookup(event_time_ms, asked).items():
                span = spans[split]
                if found is None or found.position >= span.end:
                    cuts[split] = Cut(span.end, None)
                elif found.position > span.head.position:
                    cuts[split] = Cut(found.position, found.event_time_ms)
                else:
                    blind.add(split)
        cuts.update(self._probe(event_time_ms, {s: spans[s] for s in spans if s in blind and s not in cuts}))
        return cuts

    def confirm(self, cuts: Mapping[SplitId, Cut], spans: Mapping[SplitId, Span], blind: set[SplitId]) -> bool:
        """Tell whether every cut that would pause its split stands at a record; if not, extend ``blind``."""
        doubtful = {
            split: cut.position
            for split, cut in cuts.items()
            if cut.exact and spans[split].start < cut.position < spans[split].end
        }
        heads = self.heads(doubtful)
        wrong = [
            split
            for split, position in doubtful.items()
            if (head := heads[split]) is None or head.position != position or head.event_time_ms != cuts[split].next_ms
        ]
        blind.update(wrong)
        return not wrong

    def _probe(self, event_time_ms: int, spans: Mapping[SplitId, Span]) -> dict[SplitId, Cut]:
        """Cut spans by bisecting with peeks, all splits of a round in one request."""
        probes = {split: _Bisection(span, event_time_ms) for split, span in spans.items()}
        while True:
            asked = {split: probe.question() for split, probe in probes.items() if not probe.done}
            if not asked:
                return {split: probe.cut() for split, probe in probes.items()}
            heads = self.heads(asked)
            for split in asked:
                probes[split].answer(heads[split])


class _Bisection:
    """The search for a cut in one span: interpolates by event time, and halves when that is slow.

    Between ``low``, a record before the time, and ``high``, from where on none before it was seen,
    lies what is in doubt.  Depends on the span and the time alone, so that a restart cuts the same.
    """

    _FIRST_STEP = 2048
    _GOOD_ENOUGH = 64

    def __init__(self, span: Span, event_time_ms: int) -> None:
        self._time_ms = event_time_ms
        self._start = span.start
        self._low = span.head
        self._high = span.end
        self._high_ms: int | None = None
        self._asked = span.start
        self._rounds = 0

    @property
    def done(self) -> bool:
        """Nothing is in doubt any more, or so little that the next batch may have it."""
        doubtful = self._high - self._low.position - 1
        return doubtful <= (self._low.position - self._start) // self._GOOD_ENOUGH

    def question(self) -> int:
        """Return the position to peek at next."""
        first, last = self._low.position + 1, self._high - 1
        if self._high_ms is None:
            # Nothing is known of the far side: gallop, so that a cut near the start costs few peeks.
            self._asked = min(last, self._low.position + self._FIRST_STEP * 4**self._rounds)
        elif self._rounds % 3 == 2:
            self._asked = (first + last) // 2
        else:
            share = (self._time_ms - self._low.event_time_ms) / (self._high_ms - self._low.event_time_ms)
            self._asked = first + int((last - first) * share)
        self._rounds += 1
        return self._asked

    def answer(self, head: Head | None) -> None:
        """Take the first record at or after the position that was asked for."""
        if head is None or head.position >= self._high:
            self._high = self._asked
        elif head.event_time_ms >= self._time_ms:
            self._high, self._high_ms = self._asked, head.event_time_ms
        else:
            self._low = head

    def cut(self) -> Cut:
        """Return the cut: not past a record that was seen at or after the time."""
        if self._high - self._low.position > 1:
            return Cut(self._low.position + 1, self._low.event_time_ms, exact=False)
        return Cut(self._high, self._high_ms, exact=False)
