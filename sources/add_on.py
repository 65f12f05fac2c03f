"""What an add-on, such as windows, asks of the stream of a source.

The user's DataFrame may already have steps after the source, so an add-on loads the source once more, with the text of
an ``AddOn`` as an option.  It may have tasks of the source make other rows, before Spark gets any.  An add-on that
drops rows observes how many, and one with steps of its own in Spark's plans says what they do: accounts go by both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from typing_extensions import Self

from tidegate.enumerators.contract import Json

if TYPE_CHECKING:
    import re

    import pyarrow as pa
    from pyspark.sql.types import StructType

LATE_DROPPED = "numLateRecordsDropped"
"""The metric, by Flink's name, with which an add-on observes how many rows it drops as late."""
MORE_RECORDS = "numMoreRecords"
"""The metric by how many the records of a source are more than the rows that a ``RowStage`` made of them."""
RECORDS = "__records"
"""The column of rows of a ``RowStage`` that adds up to the number of records for which they stand."""
PASSING_STEPS: list[re.Pattern[str]] = []
"""Steps of Spark's plans that read their rows once, and pass a row on at most once; each add-on appends its own."""


class RowStage(Protocol):
    """Makes other rows of those that a task has read, before Spark gets any.

    schema: the columns of the rows that it makes.
    """

    schema: pa.Schema

    def rows(self, batches: Iterator[pa.RecordBatch], watermark_ms: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows for a task.  Called once for each attempt of the task, on an executor.

        batches: the rows of the task in the columns of the source, after decoding and filters.
        watermark_ms: the watermark that all of them have in the column ``tasks.ADD_ON_WATERMARK``, or None.
        """


class StageCall(NamedTuple):
    """How a task makes a stage.

    place: ``module:class``.  arguments: by name, as JSON.
    about: what the stage does, in a sentence for progress and pages.
    """

    place: str
    arguments: Mapping[str, Any]
    about: str


@dataclass(frozen=True)
class AddOn:
    """The stream of a source that an add-on reads, with the watermark in the column ``tasks.ADD_ON_WATERMARK``.

    Rows that hold only the watermark also come, whenever it moves.

    name: the add-on's in sentences and offsets, in the plural, such as ``windows``.
    columns: the columns of the source, as Spark's JSON; the schema of the stream may have only some of them.
    ahead_ms: how much later the column is than the source's watermark.
    state: the description of the state that Spark keeps of the rows, by the names of its parts.  Offsets hold it, and a
        restart with another one is refused.  None: Spark keeps none, or the add-on describes it itself.
    stage: what tasks do to the rows of the source before Spark gets them; None: nothing.
    """

    name: str
    columns: Json
    ahead_ms: int
    state: Mapping[str, str] | None
    stage: StageCall | None = None

    option: ClassVar[str] = "__add_on"

    @property
    def schema(self) -> StructType:
        """The columns of the source."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self.columns)

    def to_text(self) -> str:
        """Return the text of the option."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return what the text of the option asks."""
        asked = json.loads(text)
        stage = asked.pop("stage")
        return cls(**asked, stage=None if stage is None else StageCall(*stage))

    def row_stage(self) -> RowStage | None:
        """Return a new stage for a task."""
        if self.stage is None:
            return None
        module, _, name = self.stage.place.partition(":")
        stage: RowStage = getattr(import_module(module), name)(**self.stage.arguments)
        return stage
