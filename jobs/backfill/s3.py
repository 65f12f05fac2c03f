"""The arguments of a back-fill from objects of S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.jobs.backfill.arguments import BackfillArguments
from tidegate.sources.s3.source import S3Source

_STATE = "stateLocation"
# The options that decide which objects are read, and which rows of them.
_BINDING = ("fileFormat", "pathGlobFilter", "recursiveFileLookup", "modifiedAfter", "modifiedBefore", "columns", _STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Arguments(BackfillArguments):
    """The objects to read, and the default state location."""

    path: str
    kept: str

    def source(self) -> S3Source:
        """Return the objects as a source."""
        return S3Source.from_options(self.source_options())

    def _own_options(self) -> dict[str, str]:
        return {"path": self.path} | ({} if self._option(_STATE) else {_STATE: self.kept})

    def binding(self) -> dict[str, Any]:
        """Add the path, and the options that decide which objects are read, and which rows of them."""
        options = {f"--option {name}": self._option(name) for name in _BINDING}
        return {"--path": self.path, **options, **BackfillArguments.binding(self)}

    def look(self, state: Json | None) -> None:
        """Leave the objects to the query: another look would list and survey all of them twice."""
