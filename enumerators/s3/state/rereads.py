"""Requests to read chunks again: each is a file in the ledger of the query, which takes it exactly once.

A request holds its chunks as a manifest does.  The query makes a manifest of its own of them, and its snapshot
names the request beside it: an offset that is stored holds both or neither.  When that manifest is read, or merged
into another, the request is deleted, and only when it is gone does the snapshot forget it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.ledger import Ledger

__all__ = ["RereadRequests", "request_reread"]

PREFIX = "reread-"


def request_reread(ledger: Ledger, chunks: ChunkSorter, number: int) -> str:
    """Ask a query to read chunks again, and return the name of the request.

    ledger: of the query.
    number: tells this request from another one for the same chunks, such as the time in ms.
    """
    request = Manifest.build(number, chunks)
    name = PREFIX + request.id
    ledger.write(name, request.data)
    return name


class RereadRequests:
    """The requests to one query.

    taken: the last run's snapshot; an offset that is stored names each of them.
    """

    def __init__(self, ledger: Ledger, taken: Mapping[str, int]) -> None:
        self._ledger = ledger
        self._taken = dict(taken)
        self._stored = max(self._taken.values(), default=0)

    def pending(self) -> dict[str, ChunkSorter]:
        """Return the chunks of each request that was not taken yet, by its name."""
        found = {}
        for name in self._ledger.names():
            if name.startswith(PREFIX) and name not in self._taken:
                request = Manifest.parse(name.removeprefix(PREFIX), self._ledger.read(name))
                found[name] = ChunkSorter()
                found[name].add_sorted(request.data)
        return found

    def take(self, name: str, number: int) -> None:
        """Note that a request is taken by the manifest of this number."""
        self._taken[name] = number

    def stored(self, number: int, live: Collection[int]) -> None:
        """Learn that a stored offset names a manifest of this number, and forget what is done.

        live: the numbers of the manifests that are not read to their end.
        """
        self._stored = max(self._stored, number)
        for name, manifest in [*self._taken.items()]:
            if manifest <= self._stored and manifest not in live:
                self._ledger.delete(name)
                del self._taken[name]

    def snapshot(self) -> dict[str, int]:
        """Return what was taken and is not forgotten yet, by name the number of its manifest."""
        return dict(self._taken)
