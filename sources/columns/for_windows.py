"""The option that tells a source what ``tidegate.windowed`` needs from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

from pyspark.sql.types import StructType
from typing_extensions import Self

from tidegate.enumerators.contract import Json


@dataclass(frozen=True)
class ForWindows:
    """The stream of a source that windows read, with the column ``tasks.WINDOW_WATERMARK``.

    ahead_ms: how much later the column is than the source's watermark.
    columns: the columns of the source, as Spark's JSON; windows may read only some of them.
    description: the description of the windows that Spark itself keeps of the rows; None: it keeps none.
    """

    ahead_ms: int
    columns: Json
    description: Mapping[str, str] | None

    option: ClassVar[str] = "__windows"

    @property
    def schema(self) -> StructType:
        """The columns of the source."""
        return StructType.fromJson(self.columns)

    def to_text(self) -> str:
        """Return the text of the option."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the needs from the text of the option."""
        return cls(**json.loads(text))
