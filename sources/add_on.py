"""What an add-on, such as windows, asks of the stream of a source.

The user's DataFrame may already have steps after the source.  So an add-on loads the source once more, with the text of
an ``AddOn`` as an option.  An add-on that drops rows observes how many, and one with steps of its own in Spark's plans
says what they do: accounts go by both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import Self

from tidegate.enumerators.contract import Json

if TYPE_CHECKING:
    import re

    from pyspark.sql.types import StructType

LATE_DROPPED = "numLateRecordsDropped"
"""The metric, by Flink's name, with which an add-on observes how many rows it drops as late."""
PASSING_STEPS: list[re.Pattern[str]] = []
"""Steps of Spark's plans that read their rows once, and pass a row on at most once; each add-on appends its own."""


@dataclass(frozen=True)
class AddOn:
    """The stream of a source that an add-on reads, with the watermark in the column ``tasks.ADD_ON_WATERMARK``.

    Rows that hold only the watermark come, too, whenever it moves.

    name: the add-on's in sentences and offsets, in the plural, such as ``windows``.
    columns: the columns of the source, as Spark's JSON; the schema of the stream may have only some of them.
    ahead_ms: how much later the column is than the source's watermark.
    state: the description of the state that Spark keeps of the rows, by the names of its parts.  Offsets hold it, and a
        restart with another one is refused.  None: Spark keeps none, or the add-on describes it itself.
    """

    name: str
    columns: Json
    ahead_ms: int
    state: Mapping[str, str] | None

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
        return cls(**json.loads(text))
