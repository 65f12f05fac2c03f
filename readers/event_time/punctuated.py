"""Watermarks that the rows themselves contain (Flink: punctuated watermarks)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.alignment.generators.contract import NO_EVENT_TIME, GeneratorSupplier, WatermarkGenerator, WatermarkOutput
from tidegate.errors import ContractError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.event_time.assigners import RecordTimestamp, assigner_of
from tidegate.readers.registry.client import RegistryConfig

Marks: TypeAlias = Callable[[pa.RecordBatch], npt.NDArray[np.bool_] | pa.BooleanArray | pa.Int64Array]
"""Decides which rows of a batch are marks, which contain a watermark.

Returns a value for each row.  True marks a row whose event time is the watermark, if it has one.  An integer is the
watermark itself, in ms since the epoch; null if the row is not a mark.
"""


@dataclass(frozen=True, slots=True)
class PunctuatedWatermarks(WatermarkGenerator):
    """Emits only the watermarks that rows contain.  It needs no state."""

    is_divisible: ClassVar[bool] = True
    wants_untimed_rows: ClassVar[bool] = True
    marks: Marks

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Emit the greatest watermark.  Raises ContractError unless ``marks`` returns a value for each row."""
        marks = self.marks(batch)
        marked = pa.array(marks) if isinstance(marks, np.ndarray) else marks
        if not isinstance(marked, pa.BooleanArray | pa.Int64Array) or len(marked) != batch.num_rows:
            raise ContractError(
                f"the marks of watermarks are {type(marks).__qualname__}; expected a Boolean or an int64 for each of "
                f"{batch.num_rows} rows"
            )
        watermarks = marked
        if pa.types.is_boolean(marked.type):
            watermarks = pa.array(event_times, mask=event_times == NO_EVENT_TIME).filter(marked)
        greatest_ms = pc.max(watermarks).as_py()
        if greatest_ms is not None:
            output.emit_watermark(greatest_ms)


def punctuated_by(marks: str | Marks, registry: RegistryConfig | None = None) -> GeneratorSupplier:
    """Return a supplier of generators that emit the watermarks that rows contain.

    marks: the place of the watermark: ``header:NAME``, or ``json:``, ``avro:`` or ``protobuf:`` with a pointer.  Or a
        function, see Marks.

    Raises ValueError for any other text.
    """
    marks_in = marks_of(marks, registry) if isinstance(marks, str) else marks
    return lambda: PunctuatedWatermarks(marks_in)


def marks_of(text: str, registry: RegistryConfig | None = None) -> Marks:
    """Return the function that reads the watermarks at the place that a text names; see ``punctuated_by``.

    Raises ValueError, one sentence, for any other text.
    """
    assigner = assigner_of(text, None, registry)
    if isinstance(assigner, RecordTimestamp):
        expected = "header:NAME, json:/pointer/into/value, or avro: or protobuf: with such a pointer"
        raise ValueError(f"expected {expected}")  # noqa: TRY004 - the text is wrong, not its type
    return assigner.times_by_own_units
