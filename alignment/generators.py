"""Watermark generators: their contract (FLIP-126), those of Flink, and the watermark of one split that has one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tidegate.alignment.durations import milliseconds
from tidegate.errors import ContractError, OptionError, TidegateError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

NO_EVENT_TIME = -(2**63)
"""The event time, in ms, of a row without a usable one."""


class WatermarkOutput(ABC):
    """Receives the watermarks and the status of one split from its generator."""

    @abstractmethod
    def emit_watermark(self, watermark_ms: int) -> None:
        """Promise that no more rows with an event time at or before this one will come; in ms since the epoch.

        It marks the split as active.  A watermark that is not greater than the one before it changes nothing.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Stop the split from holding back the watermark of the others."""

    @abstractmethod
    def mark_active(self) -> None:
        """Let the split hold back the watermark of the others again."""


class WatermarkGenerator(ABC):
    """Makes the watermark of one split from its rows.

    There is one instance for each split.  Its rows come in order of position, each exactly once, whichever process
    reads them.  Between two processes only what ``snapshot`` returns survives.
    """

    is_divisible: ClassVar[bool] = False
    """Whether a range may be cut into parts, each for a fresh instance that runs beside the others.

    That is correct if the watermark after a range is the greatest of the watermarks after its parts.
    """

    wants_untimed_rows: ClassVar[bool] = False
    """Whether ``on_event`` also sees rows without a usable event time, which then is ``NO_EVENT_TIME``."""

    @abstractmethod
    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Look at the rows of the split that a reader has decoded in one piece.

        batch: at least one row, with the columns that the source delivers.
        event_times: the event time of each row, in ms since the epoch.

        Must not depend on how the rows are divided into batches.
        """

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark periodically instead of per row.

        Called after the rows of a split in a micro-batch.
        """
        del output

    def snapshot(self) -> Mapping[str, Any]:
        """Return the state that another instance needs to continue, as JSON.  It is stored in the checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``snapshot`` returned.  Called at most once, before anything else."""
        del state


class RowWatermarkGenerator(WatermarkGenerator):
    """Takes rows one by one, for generators that are ported from Flink.  A loop in Python costs a microsecond a row."""

    @abstractmethod
    def on_row(self, row: Mapping[str, Any], event_time_ms: int, output: WatermarkOutput) -> None:
        """Look at one row, with its values by column name (Flink: onEvent)."""

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Call ``on_row`` for each row."""
        for row, event_time_ms in zip(batch.to_pylist(), event_times.tolist(), strict=True):
            self.on_row(row, event_time_ms, output)


GeneratorSupplier: TypeAlias = Callable[[], WatermarkGenerator]
"""Returns a new generator.  Also called on executors, so it must be picklable."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Emits the greatest event time so far, minus the disorder, minus 1 ms.

    max_out_of_orderness: how far a row may be behind the greatest event time before it.

    Raises OptionError if it is negative, or no timedelta.
    """

    is_divisible = True

    def __init__(self, max_out_of_orderness: timedelta) -> None:
        if not isinstance(max_out_of_orderness, timedelta):
            raise OptionError(
                f"max_out_of_orderness is {max_out_of_orderness!r}, but it must be a timedelta, such as "
                "timedelta(seconds=10)"
            )
        if max_out_of_orderness < timedelta(0):
            raise OptionError(f"max_out_of_orderness is {max_out_of_orderness}, but it must be zero or more")
        self._disorder_ms = milliseconds(max_out_of_orderness)
        self._greatest_ms: int | None = None

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Remember the greatest event time."""
        del batch, output
        if len(event_times):
            greatest_ms = int(event_times.max())
            self._greatest_ms = greatest_ms if self._greatest_ms is None else max(greatest_ms, self._greatest_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark, once there was a row."""
        if self._greatest_ms is not None:
            output.emit_watermark(self._greatest_ms - self._disorder_ms - 1)

    def snapshot(self) -> Mapping[str, Any]:
        """Return the greatest event time."""
        return {} if self._greatest_ms is None else {"greatest": self._greatest_ms}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the greatest event time from before."""
        self._greatest_ms = state.get("greatest")


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """Assumes that event times never go back within a split (Flink: AscendingTimestampsWatermarks)."""

    def __init__(self) -> None:
        super().__init__(timedelta(0))


_MOST_STATE = 4096  # characters: every offset holds it, once for each split


@dataclass(frozen=True, slots=True)
class SplitWatermark:
    """The watermark and the state of a split's generator, up to a position; None before the first one."""

    watermark_ms: int | None = None
    is_idle: bool = False
    state: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without default values."""
        fields = {"watermark": self.watermark_ms, "idle": self.is_idle or None, "state": self.state or None}
        return {key: value for key, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SplitWatermark:
        """Read what ``to_json`` returned."""
        return cls(fields.get("watermark"), bool(fields.get("idle", False)), fields.get("state"))


def new_generator(supplier: GeneratorSupplier) -> WatermarkGenerator:
    """Return a new generator from a supplier.  Raises ContractError if the supplier returns anything else."""
    with _named("the supplier of watermark generators"):
        generator = supplier()
    if not isinstance(generator, WatermarkGenerator):
        raise ContractError(
            f"the supplier of watermark generators returned {type(generator).__name__} instead of a WatermarkGenerator"
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
            raise ContractError(f"{self._name} failed in snapshot(): it is not JSON: {error}") from error
        if len(text) > _MOST_STATE:
            raise ContractError(
                f"{self._name} failed in snapshot(): it has {len(text)} characters; at most {_MOST_STATE} are allowed, "
                "because each offset holds one for every split"
            )
        return SplitWatermark(self._watermark_ms, self._is_idle, json.loads(text) or None)

    def report(self) -> dict[str, Any]:
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
