"""Where a run begins and ends, in positions and in event time, asked before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from tidegate.alignment.index import SupportsPeek
from tidegate.alignment.splits import Positions, SplitId
from tidegate.errors import ContractError
from tidegate.sources.contract import Source

__all__ = ["Stretch", "survey"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a run has to read of one split.

    start, end: positions, the end exclusive.
    begin_ms, end_ms: event time of its first record and the greatest there is; None: nothing to read.
    """

    start: int
    end: int
    begin_ms: int | None
    end_ms: int | None

    @property
    def rows(self) -> int:
        """How much there is to read, in positions."""
        return max(0, self.end - self.start)


def survey(source: Source, positions: Positions | None = None) -> dict[SplitId, Stretch]:
    """Return what a run that starts now would read of every split.

    positions: where an earlier run of the same query ended; None: there was none.

    Raises ConnectorError when the other side cannot be reached, or does not have what is named.
    """
    known: Mapping[SplitId, int] = positions or {}
    with closing(source.enumerator(None)) as enumerator:
        if not isinstance(enumerator, SupportsPeek):
            raise ContractError(f"{type(enumerator).__name__} has no peek(), so nothing is known of event times")
        splits = sorted(enumerator.discover())
        new = [split for split in splits if split not in known]
        starts = {**enumerator.starts(new, first=not known), **{s: known[s] for s in splits if s in known}}
        stops = enumerator.stops(splits)
        extents = enumerator.extents(splits)
        ends = {s: min(e.end, stop) if (stop := stops[s]) is not None else e.end for s, e in extents.items()}
        unread = {s: starts[s] for s in ends if starts[s] < ends[s]}
        heads = enumerator.peek(unread)
        latest = enumerator.latest({s: ends[s] for s in unread})
    return {
        s: Stretch(
            starts[s],
            ends[s],
            head.event_time_ms if (head := heads.get(s)) is not None else None,
            latest.get(s),
        )
        for s in ends
    }
