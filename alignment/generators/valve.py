"""The watermark of a source from the watermarks of its splits (Flink: StatusWatermarkValve, including FLINK-38454)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.alignment.splits import SplitId

__all__ = ["StatusWatermarkValve", "ValveInput"]


@dataclass(slots=True)
class ValveInput:
    """A split as the valve knows it.

    watermark_ms: the greatest watermark so far; None: none yet.
    is_active: False while the split is idle.
    is_aligned: the split counts for the minimum.  A split that woke counts only once it has caught up with the output.
    """

    watermark_ms: int | None = None
    is_active: bool = True
    is_aligned: bool = True


@dataclass(slots=True)
class StatusWatermarkValve:
    """Combines watermarks: the minimum over the splits that are active and aligned.

    watermark_ms: the last output; it never goes back.  None: none yet.
    is_active: whether any split is active.
    """

    inputs: dict[SplitId, ValveInput] = field(default_factory=dict)
    watermark_ms: int | None = None
    is_active: bool = True

    def input_watermark(self, split: SplitId, watermark_ms: int) -> None:
        """Take a watermark of a split; ignored if the split is idle, or if the watermark is not greater than before."""
        known = self.inputs[split]
        if not (self.is_active and known.is_active):
            return
        if known.watermark_ms is not None and watermark_ms <= known.watermark_ms:
            return
        known.watermark_ms = watermark_ms
        known.is_aligned = known.is_aligned or self._has_caught_up(known)
        self._advance_to_minimum()

    def input_status(self, split: SplitId, *, is_active: bool) -> None:
        """Mark a split as idle, or as active again."""
        known = self.inputs[split]
        if is_active == known.is_active:
            return
        known.is_active = is_active
        if is_active:
            known.is_aligned = self._has_caught_up(known)
            self.is_active = True
            return
        known.is_aligned = False
        if not any(other.is_active for other in self.inputs.values()):
            self._advance(
                max((w for other in self.inputs.values() if (w := other.watermark_ms) is not None), default=None)
            )
            self.is_active = False
        else:
            self._advance_to_minimum()

    def remove(self, split: SplitId) -> None:
        """Forget a split, which then no longer holds back the others."""
        if self.inputs.pop(split, None) is not None:
            self._advance_to_minimum()

    def _has_caught_up(self, known: ValveInput) -> bool:
        if self.watermark_ms is None:
            return True
        return known.watermark_ms is not None and known.watermark_ms >= self.watermark_ms

    def _advance_to_minimum(self) -> None:
        aligned = [known.watermark_ms for known in self.inputs.values() if known.is_aligned]
        if aligned and None not in aligned:
            self._advance(min(w for w in aligned if w is not None))

    def _advance(self, watermark_ms: int | None) -> None:
        if watermark_ms is not None and (self.watermark_ms is None or watermark_ms > self.watermark_ms):
            self.watermark_ms = watermark_ms
