"""The watermark of one split that has a generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.alignment.generators.contract import NO_EVENT_TIME, WatermarkGenerator, WatermarkOutput
from tidegate.errors import ContractError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["GeneratorRun", "SplitWatermark"]

_MOST_STATE = 4096  # characters: it stands in every offset, once for each split


@dataclass(frozen=True, slots=True)
class SplitWatermark:
    """What the generator of a split has said up to a position.

    watermark_ms: None: nothing yet.
    is_idle: it was marked so.
    state: what the generator needs to go on.
    """

    watermark_ms: int | None = None
    is_idle: bool = False
    state: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without what says nothing."""
        said = {"watermark": self.watermark_ms, "idle": self.is_idle or None, "state": self.state or None}
        return {key: value for key, value in said.items() if value is not None}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> SplitWatermark:
        """Read what ``to_json`` returned."""
        return cls(said.get("watermark"), bool(said.get("idle", False)), said.get("state"))


class GeneratorRun(WatermarkOutput):
    """One generator over rows of its split (Flink: TimestampsAndWatermarksOperator.WatermarkEmitter)."""

    def __init__(self, generator: WatermarkGenerator, before: SplitWatermark) -> None:
        self._generator = generator
        self._watermark_ms, self._is_idle = before.watermark_ms, before.is_idle
        if before.state is not None:
            generator.restore(before.state)

    def add(self, batch: pa.RecordBatch, event_times: pa.Int64Array) -> None:
        """Show rows to the generator.

        event_times: null where a row has none that is usable.
        """
        if event_times.null_count and self._generator.wants_untimed_rows:
            event_times = event_times.fill_null(NO_EVENT_TIME)
        elif event_times.null_count:
            batch, event_times = batch.filter(event_times.is_valid()), event_times.drop_null()
        if batch.num_rows:
            times: npt.NDArray[np.int64] = event_times.to_numpy()
            self._generator.on_event(batch, times, self)

    def end(self) -> SplitWatermark:
        """Return what the generator says after the last row.

        Raises ContractError if its state is no small JSON.
        """
        self._generator.on_periodic_emit(self)
        state, name = self._generator.snapshot(), type(self._generator).__qualname__
        try:
            text = json.dumps(state, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ContractError(f"the snapshot of the watermark generator {name} is no JSON: {error}") from error
        if len(text) > _MOST_STATE:
            raise ContractError(
                f"the snapshot of the watermark generator {name} has {len(text)} characters; at most {_MOST_STATE} "
                "are allowed, because each offset holds one for every split"
            )
        return SplitWatermark(self._watermark_ms, self._is_idle, json.loads(text) or None)

    def emit_watermark(self, watermark_ms: int) -> None:
        """Move the watermark of the split, never back."""
        watermark_ms = int(watermark_ms)
        if self._watermark_ms is None or watermark_ms > self._watermark_ms:
            self._watermark_ms = watermark_ms
            self.mark_active()

    def mark_idle(self) -> None:
        """Let the split hold the others no longer."""
        self._is_idle = True

    def mark_active(self) -> None:
        """Let the split hold the others again."""
        self._is_idle = False
