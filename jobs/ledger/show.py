"""Prints the answers of ``tidegate ledger`` as JSON, with event times in UTC."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tidegate.jobs.figures import clock_time
from tidegate.jobs.ledger.query_ledger import KeptQuery, QueryLedger
from tidegate.jobs.ledger.reread import Asked
from tidegate.jobs.ledger.why import Why

__all__ = ["show_asked", "show_ledger", "show_queries", "show_why"]


def show_ledger(ledger: QueryLedger) -> None:
    """Print the user of the location, the manifests, and the remembered objects."""
    progress = ledger.batches[-1].end.progress if ledger.batches else None
    seen = ledger.seen
    _print(
        {
            "stateLocation": ledger.location,
            "query": ledger.lease.owner,
            "process": ledger.lease.place,
            "lease": ledger.lease.state,
            "batch": None if not ledger.batches else ledger.batches[-1].number,
            "batchIsWritten": None if not ledger.batches else ledger.batches[-1].is_committed,
            "bound": None if progress is None else _time(progress.bound_ms),
            "watermark": None if progress is None else _time(progress.watermark_ms),
            "objectsRemembered": None if seen is None else len(seen),
            "rememberedSince": None if seen is None else _time(seen.horizon_ms),
            "leftOut": dict(Counter(note.reason for note in ledger.left_out.objects())),
            "rereads": ledger.requests,
            "manifests": [_manifest(ledger, split) for split in ledger.manifests],
        }
    )


def show_why(answers: Sequence[Why]) -> None:
    """Print the findings about objects."""
    _print([{"key": answer.key, "findings": [_finding(f) for f in answer.findings]} for answer in answers])


def show_asked(asked: Asked) -> None:
    """Print the request to read again."""
    _print(
        {
            "request": asked.request,
            "chunks": len(asked.chunks),
            "bytes": asked.chunks.cost(0, len(asked.chunks)).bytes,
            "notYetRead": asked.waiting,
            **_times(asked.chunks),
        }
    )


def show_queries(queries: Sequence[KeptQuery]) -> None:
    """Print the size of queries' files in a state location."""
    _print(
        [
            {
                "query": query.owner,
                "lease": None if query.lease is None else query.lease.state,
                "written": None if query.kept.written_s is None else _time(int(query.kept.written_s * 1000)),
                "files": query.kept.files,
                "bytes": query.kept.bytes,
            }
            for query in queries
        ]
    )


def _manifest(ledger: QueryLedger, split: str) -> dict[str, Any]:
    manifest = ledger.manifests[split]
    cost = manifest.cost(0, len(manifest))
    last = ledger.last_batch_of(split)
    return {
        "manifest": split,
        "chunks": len(manifest),
        "objects": cost.files,
        "bytes": cost.bytes,
        **_times(manifest),
        "planned": ledger.planned.get(split),
        "read": ledger.read.get(split),
        "batch": None if last is None else last.number,
    }


def _times(manifest: Any) -> dict[str, str | None]:
    head = manifest.head(0)
    return {"begin": None if head is None else _time(head.event_time_ms), "end": _time(manifest.latest(len(manifest)))}


def _finding(finding: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"state": finding.state}
    if finding.reason is not None:
        shown["reason"] = finding.reason
    if finding.chunk is not None:
        shown |= {
            **finding.chunk._asdict(),
            "manifest": finding.manifest,
            "position": finding.position,
            "batch": finding.batch,
        }
        del shown["key"]
    return shown


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else clock_time(time_ms)


def _print(value: Any) -> None:
    print(json.dumps(value, indent=1))  # noqa: T201 - escaped: a key may hold a command for the terminal
