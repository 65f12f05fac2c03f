"""The watermark from generators: their watermarks of splits, and the source's watermark that follows.

Before each plan the generators see the rows that were read since the last plan.  So the watermark of a batch is known
before it runs, and a repeated batch has the same watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tidegate.alignment.generators.contract import GeneratorSupplier
from tidegate.alignment.generators.split_watermark import GeneratorRun, SeenRows, SplitWatermark, name_of, new_generator
from tidegate.alignment.generators.valve import StatusWatermarkValve, ValveInput
from tidegate.alignment.plan import Progress
from tidegate.alignment.splits import Positions, SplitId, SplitRange
from tidegate.alignment.states import SplitState
from tidegate.alignment.watermark import advanced
from tidegate.enumerators.contract import Json
from tidegate.errors import DataLossError, ObjectGoneError
from tidegate.readers.contract import ReadTask, TimedRows
from tidegate.readers.events.event import SourceEvent

__all__ = ["GeneratedWatermarks", "ReaderFeed", "needed_from", "no_events", "said_before"]

_LOG = logging.getLogger("tidegate.planner")

_DETAILED_SPLITS = 100
_GONE = {SplitState.FINISHED, SplitState.REMOVED}


def no_events(_: str) -> Collection[SourceEvent]:
    """Return the source events of a run that takes none."""
    return ()


@dataclass(frozen=True, slots=True)
class ReaderFeed:
    """What readers report, on executors and in the planner.

    read_timed: reads a task of one range, with the enumerator's snapshot.
    take_events: returns the source events about a subject since its last call for that subject.
    """

    read_timed: Callable[[ReadTask, Json | None], TimedRows]
    take_events: Callable[[str], Collection[SourceEvent]] = no_events


class GeneratedWatermarks:
    """The generated watermarks of one run.

    supplier: creates the generator of a split.
    read: reads the ranges that no event has reported.
    take_events: returns the source events since its last call.
    """

    def __init__(
        self,
        supplier: GeneratorSupplier,
        read: Callable[[SplitRange], TimedRows],
        take_events: Callable[[], Collection[SourceEvent]] = tuple,
    ) -> None:
        self._supplier, self._read, self._take_events = supplier, read, take_events
        self._name = name_of(new_generator(supplier))
        self._valve = StatusWatermarkValve()
        self._said: dict[SplitId, SplitWatermark] = {}
        self._seen: dict[SplitId, int] = {}
        self._reported: dict[tuple[SplitId, int], SourceEvent] = {}
        self._begun_after: dict[SplitId, int] = {}  # the batch that was planned last when a split began
        self._read_here, self._rows = 0, SeenRows()

    def restore(self, snapshot: Json | None, progress: Progress) -> None:
        """Continue from an offset.  Called once, before anything else."""
        said = snapshot or {}
        unaligned = set(said.get("unaligned", ()))
        self._said = {s: _said_of(said, s, self._name) for s in progress.positions}
        if said.get("by", self._name) != self._name:
            _LOG.warning(
                "the watermark generator was %s, and is %s now: it begins without the state of the other one",
                said["by"],
                self._name,
            )
        self._seen = {**progress.positions, **said.get("unseen", {})}
        self._valve.watermark_ms = progress.watermark_ms
        for split, known in self._said.items():
            is_active = not (known.is_idle or split in progress.idle)
            is_aligned = is_active and split not in unaligned
            self._valve.inputs[split] = ValveInput(known.watermark_ms, is_active, is_aligned)
        inputs = self._valve.inputs.values()
        self._valve.is_active = not inputs or any(known.is_active for known in inputs)

    def see(self, positions: Positions, readable: Collection[SplitId], promised_ms: int | None = None) -> None:
        """Take in the generators' watermarks of the rows up to the positions.  Called before every plan.

        positions: the positions of the splits that still hold the records that were read.
        readable: the splits that can be read now; for the others only events count.
        promised_ms: the source's watermark before the rows, if known; None: there was none.
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
        before, after = self._said[event.split_id], SplitWatermark.from_json(event.said)
        # The generator of a part knows nothing about the parts before it.
        self._said[event.split_id] = replace(after, watermark_ms=advanced(before.watermark_ms, after.watermark_ms))
        self._rows += SeenRows(event.said.get("rows", 0), event.said.get("late", 0))
        return event.end

    def _read_to(self, split: SplitId, start: int, end: int, promised_ms: int | None) -> int:
        """Show rows to a generator here, up to the next range that an event has reported; return the end."""
        end = min((at for other, at in self._reported if other == split and start < at < end), default=end)
        run = GeneratorRun(new_generator(self._supplier), self._said[split], promised_ms)
        self._read_here += end - start
        try:
            for timed in self._read(SplitRange(split, start, end)):
                run.add(timed.rows, timed.event_times)
        except (DataLossError, ObjectGoneError) as error:
            # These rows were delivered before, so the query loses nothing.
            _LOG.warning("a watermark generator does not see rows that are gone since they were read: %s", error)
        self._said[split] = run.end()
        self._rows += run.seen
        return end

    def begin(self, starts: Positions, splits: Collection[SplitId], last_batch: int = -1) -> None:
        """Take in splits that are new, or hold other records than before, and forget splits that are gone for good.

        starts: may be passed again, until an offset holds them.
        splits: all splits that have a position.
        last_batch: the number of the batch that was planned last.
        """
        for split in self._said.keys() - set(splits):
            self._valve.remove(split)
            del self._said[split], self._seen[split]
            self._begun_after.pop(split, None)
        nothing, inputs = SplitWatermark(), self._valve.inputs
        for split, start in starts.items():
            said, known = self._said.get(split, nothing), inputs.get(split)
            # A split without a watermark holds back the source's watermark.  A split that had one must catch up.
            is_aligned = self._valve.watermark_ms is None or (said == nothing and (known is None or known.is_aligned))
            self._reported = {at: event for at, event in self._reported.items() if at[0] != split}
            self._seen[split], self._said[split], self._begun_after[split] = start, nothing, last_batch
            inputs[split] = ValveInput(is_aligned=is_aligned)

    def combine(self, states: Mapping[SplitId, SplitState]) -> int | None:
        """Return the source's watermark; None: there is none yet.

        states: the states of all splits before the batch.
        """
        valve, said = self._valve, self._said
        gone = {s for s in said if states.get(s, SplitState.REMOVED) in _GONE}
        for split in said.keys() - valve.inputs.keys() - gone:  # splits that had disappeared, and came back
            valve.inputs[split] = ValveInput(is_aligned=valve.watermark_ms is None)
        idle = {s for s, split in said.items() if split.is_idle or states.get(s) is SplitState.IDLE}
        for split, known in valve.inputs.items():
            if split not in idle or _is_greater(said[split].watermark_ms, known.watermark_ms):
                valve.input_status(split, is_active=True)
        # Splits that have not caught up come first, so that the others do not leave them behind.
        for split in sorted(valve.inputs, key=lambda split: (valve.inputs[split].is_aligned, split)):
            watermark_ms = said[split].watermark_ms
            if watermark_ms is not None:
                valve.input_watermark(split, watermark_ms)
        for split in sorted(idle & valve.inputs.keys()):
            valve.input_status(split, is_active=False)
        for split in sorted(gone):
            valve.remove(split)
        return valve.watermark_ms

    def by_split(self) -> dict[SplitId, int | None]:
        """Return the watermark of every split; None: one has none yet."""
        return {s: said.watermark_ms for s, said in self._said.items()}

    def holding(self) -> set[SplitId]:
        """Return the splits whose least watermark is the last combined watermark."""
        return {s for s, known in self._valve.inputs.items() if known.is_aligned}

    def report(self) -> Json:
        """Return for display the watermarks of the first splits, and the split that holds back the source's."""
        inputs = self._valve.inputs
        holding = [(known.watermark_ms, s) for s, known in inputs.items() if known.is_aligned]
        silent = sorted(s for watermark_ms, s in holding if watermark_ms is None)
        slowest = min(((at_ms, s) for at_ms, s in holding if at_ms is not None), default=(None, None))[1]
        return {
            "heldBy": silent[0] if silent else slowest,
            "readHere": self._read_here,
            "rows": self._rows.rows,
            "lateRows": self._rows.late,
            "bySplit": {s: [self._said[s].watermark_ms, _status(inputs[s])] for s in sorted(inputs)[:_DETAILED_SPLITS]},
        }

    def snapshot(self, positions: Positions) -> Json:
        """Return the state that ``restore`` needs from the offset of a batch.

        positions: the positions of all splits after the batch.
        """
        unaligned = sorted(s for s, known in self._valve.inputs.items() if known.is_active and not known.is_aligned)
        snapshot = {
            "by": self._name,
            "splits": {s: split.to_json() for s, split in self._said.items() if s in positions},
            "unseen": {s: seen for s, seen in self._seen.items() if s in positions and seen < positions[s]},
            "unaligned": unaligned,
        }
        return {key: value for key, value in snapshot.items() if value}


def needed_from(snapshot: Json | None, positions: Positions) -> Positions:
    """Return the positions from which generators may have to read splits again, after a restart with an offset.

    snapshot, positions: the values in the offset.
    """
    return {**positions, **(snapshot or {}).get("unseen", {})}


def said_before(snapshot: Json | None, task: ReadTask, supplier: GeneratorSupplier) -> tuple[SplitWatermark, ...]:
    """Return for each range of a task the watermark and the state of its split's generator before the range.

    snapshot: the value in the offset of the batch.
    supplier: creates the generators that will see the ranges.

    Later parts of a range begin without a state: their generator is divisible.
    """
    said, name = snapshot or {}, name_of(new_generator(supplier))
    unseen = said.get("unseen", {})
    return tuple(
        _said_of(said, r.split_id, name) if unseen.get(r.split_id) == r.start else SplitWatermark() for r in task.ranges
    )


def _said_of(snapshot: Json, split: SplitId, name: str) -> SplitWatermark:
    """Return the watermark and the state of a split, without the state of a generator of another name."""
    said = SplitWatermark.from_json(snapshot.get("splits", {}).get(split, {}))
    return said if snapshot.get("by", name) == name else replace(said, state=None)


def _status(known: ValveInput) -> str:
    if not known.is_active:
        return "idle"
    return "active" if known.is_aligned else "behind"


def _is_greater(watermark_ms: int | None, before_ms: int | None) -> bool:
    return watermark_ms is not None and (before_ms is None or watermark_ms > before_ms)
