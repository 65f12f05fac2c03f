"""Requests to read chunks again: each is a file in the query's ledger, and the query takes it exactly once.

A request holds its chunks as a manifest does.  The query turns them into a manifest, and its snapshot also names the
request: a stored offset holds both or neither.  When that manifest is read, or merged into another, the request is
deleted, and only when it is gone does the snapshot forget it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.state.ledger import Ledger

PREFIX = "reread-"


def request_reread(ledger: Ledger, chunks: pa.Table, number: int) -> str:
    """Ask a query to read chunks again, and return the request's name; the number tells it from others."""
    request = Manifest.build(number, chunks)
    name = PREFIX + request.id
    ledger.write(name, request.data)
    return name


class RereadRequests:
    """The requests to one query; an offset that is stored names those that were taken."""

    def __init__(self, ledger: Ledger, taken: Mapping[str, int]) -> None:
        self._ledger = ledger
        self._taken = dict(taken)
        self._stored = max(self._taken.values(), default=0)

    def pending(self) -> dict[str, pa.Table]:
        """Return the chunks of each new request, by its name."""
        requests = {}
        for name in self._ledger.names():
            if name.startswith(PREFIX) and name not in self._taken:
                request = Manifest.parse(name.removeprefix(PREFIX), self._ledger.read(name))
                requests[name] = pa.Table.from_batches([request.chunks(0, len(request))])
        return requests

    def take(self, name: str, number: int) -> None:
        """Note that the manifest with this number holds the chunks of a request."""
        self._taken[name] = number

    def stored(self, number: int, live: Collection[int]) -> None:
        """Learn that a stored offset names a manifest of this number, and forget requests that are done."""
        self._stored = max(self._stored, number)
        for name, manifest in [*self._taken.items()]:
            if manifest <= self._stored and manifest not in live:
                self._ledger.delete(name)
                del self._taken[name]

    def snapshot(self) -> dict[str, int]:
        """Return the taken requests that are not forgotten yet, by name the number of the manifest."""
        return dict(self._taken)
