"""Describes the ledger of a query, and prints the answers of ``tidegate ledger`` as JSON, with event times in UTC."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import typer

from tidegate.enumerators.contract import Json
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.jobs.figures import clock_time
from tidegate.jobs.ledger.query_ledger import QueryLedger


def described(ledger: QueryLedger) -> Json:
    """Return the user of the location, the manifests, and the remembered objects."""
    last = ledger.batches[-1] if ledger.batches else None
    seen = ledger.seen
    return {
        "stateLocation": ledger.location,
        "query": ledger.lease.owner,
        "process": ledger.lease.place,
        "lease": ledger.lease.state,
        "batch": None if last is None else last.number,
        "batchIsWritten": None if last is None else last.is_committed,
        "bound": None if last is None else _time(last.end.progress.bound_ms),
        "watermark": None if last is None else _time(last.end.progress.watermark_ms),
        "objectsRemembered": None if seen is None else len(seen),
        "rememberedSince": None if seen is None else _time(seen.horizon_ms),
        "leftOut": dict(Counter(note.reason for note in ledger.left_out.objects())),
        "rereads": ledger.requests,
        "manifests": [_manifest(ledger, split) for split in ledger.manifests],
    }


def times_of(manifest: Manifest) -> Json:
    """Return the least event time of a manifest, and the greatest."""
    head = manifest.head(0)
    return {"begin": None if head is None else _time(head.event_time_ms), "end": _time(manifest.latest(len(manifest)))}


def show(answer: Any) -> None:
    """Print an answer."""
    typer.echo(json.dumps(answer, indent=1))  # escaped: a key may hold a command for the terminal


def _manifest(ledger: QueryLedger, split: str) -> Json:
    manifest = ledger.manifests[split]
    cost = manifest.cost(0, len(manifest))
    last = ledger.last_batch_of(split)
    return {
        "manifest": split,
        "chunks": len(manifest),
        "objects": cost.files,
        "bytes": cost.bytes,
        **times_of(manifest),
        "planned": ledger.planned.get(split),
        "read": ledger.read.get(split),
        "batch": None if last is None else last.number,
    }


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else clock_time(time_ms)
