"""The snapshot of an S3 enumerator: names of files in the state location, and a few numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import ConfigDict
from typing_extensions import TypedDict

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.snapshots import Snapshot


class SeenSnapshot(TypedDict):
    """A snapshot of ``SeenObjects``.

    horizon: in ms; objects older than that are not new.
    newest: the greatest LastModified that was seen, in ms.
    """

    runs: list[str]
    horizon: int | None
    newest: int | None


class _Stretches(TypedDict):
    roots: list[str]
    periods: list[list[int]]


class FoldersSnapshot(TypedDict):
    """A snapshot of ``CompleteFolders``."""

    template: str
    complete: int | None
    stretches: list[_Stretches]


@dataclass(frozen=True, slots=True)
class S3Snapshot(Snapshot):
    """A snapshot of an S3 enumerator.

    owner: names the query, its part of the state location, and the holder of the lease.
    number: of the last manifest; 0: there is none yet.
    seen: None: no round has ended yet.
    clean: for ``SourceCleaning``; None: the query does not clean.
    listed_ms: when the last full listing of a query with notifications began; None: the next round lists all.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    owner: str
    number: int
    seen: SeenSnapshot | None
    clean: Mapping[SplitId, list[int]] | None = None
    listed_ms: int | None = None
    folders: FoldersSnapshot | None = None

    @property
    def runs(self) -> Collection[str]:
        """The files with the objects that were seen."""
        return () if self.seen is None else self.seen["runs"]
