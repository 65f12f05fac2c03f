"""The watermark that generators make: what they have seen of each split, and what it says of the source.

Before a plan they see what was read since the last one.  So the watermark of a batch is known before it runs, and a
batch that is repeated has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from tidegate.alignment.generators.contract import GeneratorSupplier
from tidegate.alignment.generators.split_watermark import GeneratorRun, SplitWatermark
from tidegate.alignment.generators.valve import StatusWatermarkValve, ValveInput
from tidegate.alignment.plan import Progress
from tidegate.alignment.splits import Positions, SplitId, SplitRange
from tidegate.alignment.states import SplitState
from tidegate.enumerators.contract import Json
from tidegate.readers.contract import ReadTask, TimedRows

__all__ = ["GeneratedWatermarks", "ReadTimedTask"]

ReadTimedTask: TypeAlias = Callable[[ReadTask, Json | None], TimedRows]
"""Reads a task of one range, by the enumerator's snapshot."""

_GONE = {SplitState.FINISHED, SplitState.REMOVED}


class GeneratedWatermarks:
    """The generated watermarks of one run.

    supplier: makes the generator of a split.
    read: reads what no task has told of.
    """

    def __init__(self, supplier: GeneratorSupplier, read: Callable[[SplitRange], TimedRows]) -> None:
        self._supplier, self._read = supplier, read
        self._valve = StatusWatermarkValve()
        self._said: dict[SplitId, SplitWatermark] = {}
        self._seen: dict[SplitId, int] = {}

    def restore(self, snapshot: Json | None, progress: Progress) -> None:
        """Go on from an offset.  Called once, before anything else."""
        said = snapshot or {}
        unaligned = set(said.get("unaligned", ()))
        splits = said.get("splits", {})
        self._said = {s: SplitWatermark.from_json(splits.get(s, {})) for s in progress.positions}
        self._seen = {**progress.positions, **said.get("unseen", {})}
        self._valve.watermark_ms = progress.watermark_ms
        for split, known in self._said.items():
            is_active = not (known.is_idle or split in progress.idle)
            is_aligned = is_active and split not in unaligned
            self._valve.inputs[split] = ValveInput(known.watermark_ms, is_active, is_aligned)
        inputs = self._valve.inputs.values()
        self._valve.is_active = not inputs or any(known.is_active for known in inputs)

    def see(self, positions: Positions) -> None:
        """Show the generators what was read up to the positions.  Called before every plan."""
        for split, end in positions.items():
            start = self._seen.get(split, end)
            if start < end:
                run = GeneratorRun(self._supplier(), self._said[split])
                for batch, event_times in self._read(SplitRange(split, start, end)):
                    run.add(batch, event_times)
                self._said[split] = run.end()
            self._seen[split] = end

    def begin(self, starts: Positions) -> None:
        """Begin with splits that are new, or hold other records than before."""
        nothing = SplitWatermark()
        for split, start in starts.items():
            if self._seen.get(split) == start and self._said.get(split) == nothing:
                continue  # a plan that was not stored began with it
            is_new = split not in self._said
            self._seen[split], self._said[split] = start, nothing
            self._valve.inputs[split] = ValveInput(is_aligned=is_new)

    def combine(self, states: Mapping[SplitId, SplitState]) -> int | None:
        """Return the source's watermark; None: there is none yet.

        states: of all splits, before the batch.
        """
        valve, said = self._valve, self._said
        gone = {s for s in said if states.get(s, SplitState.REMOVED) in _GONE}
        for split in said.keys() - valve.inputs.keys() - gone:  # it was gone, and came back
            valve.inputs[split] = ValveInput(is_aligned=valve.watermark_ms is None)
        idle = {s for s, split in said.items() if split.is_idle or states.get(s) is SplitState.IDLE}
        for split, known in valve.inputs.items():
            if split not in idle or _is_greater(said[split].watermark_ms, known.watermark_ms):
                valve.input_status(split, is_active=True)
        # Whoever has not caught up comes first, so that others do not leave it behind.
        for split in sorted(valve.inputs, key=lambda split: (valve.inputs[split].is_aligned, split)):
            watermark_ms = said[split].watermark_ms
            if watermark_ms is not None:
                valve.input_watermark(split, watermark_ms)
        for split in sorted(idle & valve.inputs.keys()):
            valve.input_status(split, is_active=False)
        for split in sorted(gone):
            valve.remove(split)
        return valve.watermark_ms

    def snapshot(self, ranges: Collection[SplitRange], positions: Positions) -> Json:
        """Return what ``restore`` needs from the offset of a batch.

        ranges: that it reads.
        positions: of all splits that are remembered.
        """
        unaligned = sorted(s for s, known in self._valve.inputs.items() if known.is_active and not known.is_aligned)
        snapshot = {
            "splits": {s: split.to_json() for s, split in self._said.items() if s in positions},
            "unseen": {wanted.split_id: self._seen[wanted.split_id] for wanted in ranges},
            "unaligned": unaligned,
        }
        return {key: value for key, value in snapshot.items() if value}


def _is_greater(watermark_ms: int | None, before_ms: int | None) -> bool:
    return watermark_ms is not None and (before_ms is None or watermark_ms > before_ms)
