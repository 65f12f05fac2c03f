"""The watermarks of splits by their generators, from which a plan derives the source's.

Before each plan the generators see the rows that were read since the last plan, so the watermark of a batch is known
before it runs, and a repeated batch has the same watermark.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tidegate.alignment.generators import GeneratorRun, GeneratorSupplier, SplitWatermark, name_of, new_generator
from tidegate.alignment.outcome import advanced
from tidegate.alignment.splits import Positions, SplitId, SplitRange
from tidegate.enumerators.contract import Json
from tidegate.errors import DataLossError, ObjectGoneError
from tidegate.readers.contract import ReadTask, TimedRows
from tidegate.readers.events.event import SourceEvent

_LOG = logging.getLogger("tidegate.planner")

_DETAILED_SPLITS = 100


def no_events(_: str) -> Collection[SourceEvent]:
    """Return the source events of a run that takes none."""
    return ()


@dataclass(frozen=True, slots=True)
class ReaderFeed:
    """What readers report: how the planner reads a task of one range, and takes new source events about a subject."""

    read_timed: Callable[[ReadTask, Json | None], TimedRows]
    take_events: Callable[[str], Collection[SourceEvent]] = no_events


class GeneratedWatermarks:
    """The generated watermarks of one run, from source events and from ranges that no event has reported.

    snapshot, positions: of the offset with which the run begins.
    """

    def __init__(
        self,
        supplier: GeneratorSupplier,
        read: Callable[[SplitRange], TimedRows],
        take_events: Callable[[], Collection[SourceEvent]] = tuple,
        *,
        snapshot: Json | None,
        positions: Positions,
    ) -> None:
        self._supplier, self._read, self._take_events = supplier, read, take_events
        self._name = name_of(new_generator(supplier))
        self._reported: dict[tuple[SplitId, int], SourceEvent] = {}
        self._begun_after: dict[SplitId, int] = {}  # the batch that was planned last when a split began
        self._read_here, self._rows = 0, Counter(rows=0, late=0)
        stored = snapshot or {}
        self._watermarks = {s: _watermark_of(stored, s, self._name) for s in positions}
        if stored.get("by", self._name) != self._name:
            _LOG.warning(
                "the watermark generator was %s, and is %s now: it begins without the state of the other one",
                stored["by"],
                self._name,
            )
        self._seen: dict[SplitId, int] = {**positions, **stored.get("unseen", {})}

    def see(self, positions: Positions, readable: Collection[SplitId], promised_ms: int | None = None) -> None:
        """Take in the generators' watermarks of the rows up to the positions.  Called before every plan.

        positions: the positions of the splits that still hold the records that were read.
        readable: the splits that can be read now; for the others only events count.
        promised_ms: the source's watermark before the rows, if known.
        """
        for event in self._take_events():
            # An event of a batch from before the split began is about other records.
            if event.batch > self._begun_after.get(event.split_id, -1):
                self._reported[event.split_id, event.start] = event
        for split, end in positions.items():
            while (position := self._seen.setdefault(split, end)) < end:
                reported = self._reported.get((split, position))
                if reported is not None and reported.end <= end:
                    self._seen[split] = self._hear(reported)
                elif split in readable:
                    self._seen[split] = self._read_to(split, position, end, promised_ms)
                else:
                    break
        self._reported = {
            at: event for at, event in self._reported.items() if event.end > self._seen.get(at[0], event.end)
        }

    def _hear(self, event: SourceEvent) -> int:
        """Take in the event of an executor's generator, and return the position up to which it has seen rows."""
        before, after = self._watermarks[event.split_id], SplitWatermark.from_json(event.report)
        # The generator of a part knows nothing about the parts before it.
        self._watermarks[event.split_id] = replace(
            after, watermark_ms=advanced(before.watermark_ms, after.watermark_ms)
        )
        self._rows.update({name: event.report.get(name, 0) for name in self._rows})
        return event.end

    def _read_to(self, split: SplitId, start: int, end: int, promised_ms: int | None) -> int:
        """Show rows to a generator here, up to the next range that an event has reported; return the end."""
        end = min((at for other, at in self._reported if other == split and start < at < end), default=end)
        run = GeneratorRun(new_generator(self._supplier), self._watermarks[split], promised_ms)
        self._read_here += end - start
        try:
            for timed in self._read(SplitRange(split, start, end)):
                run.add(timed.rows, timed.event_times)
        except (DataLossError, ObjectGoneError) as error:
            # These rows were delivered before, so the query loses nothing.
            _LOG.warning("a watermark generator does not see rows that are gone since they were read: %s", error)
        self._watermarks[split] = run.end()
        self._rows.update(run.seen)
        return end

    def begin(self, starts: Positions, splits: Collection[SplitId], last_batch: int = -1) -> None:
        """Take in splits that are new, or hold other records than before, and forget splits that are gone for good.

        starts: may be passed again, until an offset holds them.
        splits: all splits that have a position.
        last_batch: the number of the batch that was planned last.
        """
        for split in self._watermarks.keys() - set(splits):
            del self._watermarks[split], self._seen[split]
            self._begun_after.pop(split, None)
        for split, start in starts.items():
            self._reported = {at: event for at, event in self._reported.items() if at[0] != split}
            self._seen[split], self._watermarks[split], self._begun_after[split] = start, SplitWatermark(), last_batch

    @property
    def splits(self) -> Mapping[SplitId, SplitWatermark]:
        """The watermarks of the splits, from the rows that were seen."""
        return dict(self._watermarks)

    def progress(self, holding: Mapping[SplitId, bool]) -> Json:
        """Return the fields of ``GeneratedProgress``.

        holding: for each split that is there, whether it holds back the source's watermark.
        """
        known = {s: (split.watermark_ms, holding[s]) for s, split in self._watermarks.items() if s in holding}
        holders = [(watermark_ms, s) for s, (watermark_ms, holds) in known.items() if holds]
        silent = sorted(s for watermark_ms, s in holders if watermark_ms is None)
        slowest = min(((at_ms, s) for at_ms, s in holders if at_ms is not None), default=(None, None))[1]
        return {
            "held_by": silent[0] if silent else slowest,
            "read_here": self._read_here,
            "rows": self._rows["rows"],
            "late_rows": self._rows["late"],
            "by_split": {
                s: (watermark_ms, "active" if holds else "idle")
                for s, (watermark_ms, holds) in sorted(known.items())[:_DETAILED_SPLITS]
            },
        }

    def snapshot(self, positions: Positions) -> Json:
        """Return the state that the next run needs from the offset of a batch, at the positions after it."""
        snapshot = {
            "by": self._name,
            "splits": {s: split.to_json() for s, split in self._watermarks.items() if s in positions},
            "unseen": {s: seen for s, seen in self._seen.items() if s in positions and seen < positions[s]},
        }
        return {key: value for key, value in snapshot.items() if value}


def needed_from(snapshot: Json | None, positions: Positions) -> Positions:
    """Return the positions from which generators may have to read splits again, after a restart with an offset."""
    return {**positions, **(snapshot or {}).get("unseen", {})}


def watermarks_before(snapshot: Json | None, task: ReadTask, supplier: GeneratorSupplier) -> tuple[SplitWatermark, ...]:
    """Return for each range of a task the watermark and the state of its split's generator before the range.

    Later parts of a range begin without a state: their generator is divisible.
    """
    stored, name = snapshot or {}, name_of(new_generator(supplier))
    unseen = stored.get("unseen", {})
    return tuple(
        _watermark_of(stored, r.split_id, name) if unseen.get(r.split_id) == r.start else SplitWatermark()
        for r in task.ranges
    )


def _watermark_of(snapshot: Json, split: SplitId, name: str) -> SplitWatermark:
    """Return the watermark and the state of a split, without the state of a generator of another name."""
    watermark = SplitWatermark.from_json(snapshot.get("splits", {}).get(split, {}))
    return watermark if snapshot.get("by", name) == name else replace(watermark, state=None)
