"""The watermark of one split that has a generator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

from tidegate.alignment.generators.contract import NO_EVENT_TIME, GeneratorSupplier, WatermarkGenerator, WatermarkOutput
from tidegate.errors import ContractError, TidegateError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


_MOST_STATE = 4096  # characters: every offset holds it, once for each split


@dataclass(frozen=True, slots=True)
class SplitWatermark:
    """The watermark and the state of a split's generator, up to a position; None before the first one."""

    watermark_ms: int | None = None
    is_idle: bool = False
    state: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without default values."""
        said = {"watermark": self.watermark_ms, "idle": self.is_idle or None, "state": self.state or None}
        return {key: value for key, value in said.items() if value is not None}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> SplitWatermark:
        """Read what ``to_json`` returned."""
        return cls(said.get("watermark"), bool(said.get("idle", False)), said.get("state"))


def new_generator(supplier: GeneratorSupplier) -> WatermarkGenerator:
    """Return a new generator from a supplier.  Raises ContractError if the supplier returns anything else."""
    with _named("the supplier of watermark generators"):
        generator = supplier()
    if not isinstance(generator, WatermarkGenerator):
        raise ContractError(
            f"the supplier of watermark generators returned {type(generator).__name__}, which is no WatermarkGenerator"
        )
    return generator


def name_of(generator: WatermarkGenerator) -> str:
    """Return the name of a generator's class: only this class understands its state."""
    return type(generator).__qualname__


class GeneratorRun(WatermarkOutput):
    """One generator over rows of its split (Flink: TimestampsAndWatermarksOperator.WatermarkEmitter).

    promised_ms: the source's watermark in the offset of the batch; rows behind it are late.

    The attribute ``seen`` counts the rows that were shown, and those of them that were late before their batch.

    All errors of the generator become ContractErrors that name it.
    """

    def __init__(self, generator: WatermarkGenerator, before: SplitWatermark, promised_ms: int | None = None) -> None:
        self.seen, self._promised_ms = Counter(rows=0, late=0), promised_ms
        self._generator, self._name = generator, f"the watermark generator {name_of(generator)}"
        self._watermark_ms, self._is_idle = before.watermark_ms, before.is_idle
        if before.state is not None:
            with _named(self._name, "restore()"):
                generator.restore(before.state)

    def add(self, batch: pa.RecordBatch, event_times: pa.Int64Array) -> None:
        """Show rows to the generator; the event time is null for a row without a usable one."""
        self.seen["rows"] += batch.num_rows
        if event_times.null_count and self._generator.wants_untimed_rows:
            event_times = event_times.fill_null(NO_EVENT_TIME)
        elif event_times.null_count:
            batch, event_times = batch.filter(event_times.is_valid()), event_times.drop_null()
        if batch.num_rows:
            times: npt.NDArray[np.int64] = event_times.to_numpy()
            if self._promised_ms is not None:
                self.seen["late"] += int(((times <= self._promised_ms) & (times != NO_EVENT_TIME)).sum())
            with _named(self._name, "on_event()"):
                self._generator.on_event(batch, times, self)

    def end(self) -> SplitWatermark:
        """Return the watermark and the state after the last row.

        Raises ContractError if the state is not JSON, or too large.
        """
        with _named(self._name, "on_periodic_emit()"):
            self._generator.on_periodic_emit(self)
        with _named(self._name, "snapshot()"):
            state = self._generator.snapshot()
        if not isinstance(state, Mapping):
            raise ContractError(f"{self._name} failed in snapshot(): it is {type(state).__name__}, and no mapping")
        try:
            text = json.dumps(dict(state), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ContractError(f"{self._name} failed in snapshot(): it is no JSON: {error}") from error
        if len(text) > _MOST_STATE:
            raise ContractError(
                f"{self._name} failed in snapshot(): it has {len(text)} characters; at most {_MOST_STATE} are allowed, "
                "because each offset holds one for every split"
            )
        return SplitWatermark(self._watermark_ms, self._is_idle, json.loads(text) or None)

    def said(self) -> dict[str, Any]:
        """Return as JSON the watermark and the state after the last row, and how many rows were seen.

        Raises ContractError as ``end`` does.
        """
        return {**self.end().to_json(), **self.seen}

    def emit_watermark(self, watermark_ms: int) -> None:
        """Move the watermark of the split, never back.  Raises ContractError for anything but an integer."""
        try:
            watermark_ms = index(watermark_ms)
        except TypeError:
            raise ContractError(
                f"{self._name} called emit_watermark({watermark_ms!r}), which takes milliseconds as an integer"
            ) from None
        if self._watermark_ms is None or watermark_ms > self._watermark_ms:
            self._watermark_ms = watermark_ms
            self.mark_active()

    def mark_idle(self) -> None:
        """Stop the split from holding back the others."""
        self._is_idle = True

    def mark_active(self) -> None:
        """Let the split hold back the others again."""
        self._is_idle = False


@contextmanager
def _named(who: str, method: str = "") -> Iterator[None]:
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        place = f" in {method}" if method else ""
        raise ContractError(f"{who} failed{place}: {type(error).__name__}: {error}") from error
