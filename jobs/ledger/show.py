"""The ledger of a query as a person sees it, or a machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from tidegate.jobs.figures import clock_time, count
from tidegate.jobs.ledger.query_ledger import KeptQuery, QueryLedger
from tidegate.jobs.ledger.reread import Asked
from tidegate.jobs.ledger.why import Why

__all__ = ["show_asked", "show_ledger", "show_queries", "show_why"]

_OBJECTS = 100  # that a person is shown


def show_ledger(ledger: QueryLedger, *, as_json: bool) -> None:
    """Print who uses the location, the manifests, and what is remembered."""
    told = _told(ledger)
    if as_json:
        _print_json(told)
        return
    lines = [*_lines(told), *(line for each in told["manifests"] for line in _manifest_lines(ledger, each))]
    width = max(len(name) for name, _ in lines)
    console = _console()
    for name, value in lines:
        console.print(f"{name:<{width}}  {value}")


def show_why(found: Sequence[Why], *, as_json: bool) -> None:
    """Print what is known of objects."""
    if as_json:
        _print_json([{"key": each.key, "findings": [_finding(f) for f in each.findings]} for each in found])
        return
    console = _console()
    if not found:
        console.print("No such object is known.")
    for each in found[:_OBJECTS]:
        console.print(each.key, style="bold")
        for finding in each.findings:
            console.print(f"  {finding.state}: {finding.sentence}")
    if len(found) > _OBJECTS:
        console.print(f"and {count(len(found) - _OBJECTS)} more; --json gives them all")


def show_asked(asked: Asked, *, as_json: bool) -> None:
    """Print what is read again."""
    cost = asked.chunks.cost(0, len(asked.chunks))
    told: dict[str, Any] = {
        "request": asked.request,
        "chunks": len(asked.chunks),
        "bytes": cost.bytes,
        "notYetRead": asked.waiting,
        **_times(asked.chunks),
    }
    if as_json:
        _print_json(told)
        return
    console = _console()
    console.print(
        f"{count(told['chunks'])} chunks, {count(cost.bytes)} bytes, {_span(told)}: the next discovery round of the "
        f"query reads them once more ({asked.request})"
    )
    if asked.waiting:
        console.print(f"{count(asked.waiting)} chunks are not asked for: the query has yet to read them")


def show_queries(found: Sequence[KeptQuery], *, forgotten: bool, as_json: bool) -> None:
    """Print how much queries keep in a state location, or kept, if they are forgotten."""
    told: list[dict[str, Any]] = [
        {
            "query": each.owner,
            "lease": None if each.lease is None else each.lease.state,
            "written": None if each.kept.written_s is None else int(each.kept.written_s * 1000),
            "files": each.kept.files,
            "bytes": each.kept.bytes,
        }
        for each in found
    ]
    if as_json:
        _print_json(told)
        return
    console = _console()
    if not told:
        console.print("no query keeps anything here")
    for each in told:
        used = "" if each["lease"] is None else f", has used it last: {each['lease']}"
        size = f"{count(each['files'])} files, {count(each['bytes'])} bytes, written on {clock_time(each['written'])}"
        console.print(f"{each['query']}  {size}{used}{'; deleted' if forgotten else ''}")


def _told(ledger: QueryLedger) -> dict[str, Any]:
    progress = ledger.batches[-1].end.progress if ledger.batches else None
    seen = ledger.seen
    return {
        "stateLocation": ledger.location,
        "query": ledger.lease.owner,
        "process": ledger.lease.place,
        "lease": ledger.lease.state,
        "batch": None if not ledger.batches else ledger.batches[-1].number,
        "batchIsWritten": None if not ledger.batches else ledger.batches[-1].is_committed,
        "bound": None if progress is None else progress.bound_ms,
        "watermark": None if progress is None else progress.watermark_ms,
        "objectsRemembered": None if seen is None else len(seen),
        "rememberedSince": None if seen is None else seen.horizon_ms,
        "leftOut": dict(Counter(each.reason for each in ledger.left_out.objects())),
        "rereads": ledger.requests,
        "manifests": [_manifest(ledger, split) for split in ledger.manifests],
    }


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


def _times(manifest: Any) -> dict[str, int | None]:
    head = manifest.head(0)
    return {"begin": None if head is None else head.event_time_ms, "end": manifest.latest(len(manifest))}


def _lines(told: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("state location", told["stateLocation"]),
        ("query", told["query"]),
        ("lease", f"{told['lease']}, {told['process']}"),
    ]
    if told["batch"] is not None:
        lines += [
            ("last batch", f"{told['batch']}, {'written' if told['batchIsWritten'] else 'not written yet'}"),
            ("bound", clock_time(told["bound"])),
            ("watermark", clock_time(told["watermark"])),
        ]
    if told["objectsRemembered"] is not None:
        since = told["rememberedSince"]
        all_that = "all that were found" if since is None else f"modified since {clock_time(since)}"
        lines.append(("remembered", f"{count(told['objectsRemembered'])} objects, {all_that}"))
    if told["leftOut"]:
        lines.append(("left out", ", ".join(f"{count(n)} {reason}" for reason, n in told["leftOut"].items())))
    if told["rereads"]:
        lines.append(("to read again", f"{count(sum(told['rereads'].values()))} chunks, as was asked for"))
    return lines


def _manifest_lines(ledger: QueryLedger, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = ", ".join(f"{count(manifest[unit])} {unit}" for unit in ("chunks", "objects", "bytes"))
    lines = [(manifest["manifest"], sizes), ("", _span(manifest))]
    return lines if ledger.batches is None else [*lines, ("", _reading(manifest))]


def _reading(manifest: dict[str, Any]) -> str:
    last = "" if manifest["batch"] is None else f", last by batch {manifest['batch']}"
    if manifest["planned"] is None:
        return f"all that batches know of is read{last}" if last else "no batch that Spark still knows names it"
    done = manifest["read"] or 0
    planned = f", {count(manifest['planned'])} planned" if manifest["planned"] > done else ""
    return f"{count(done)} chunks read{planned}{last}"


def _span(told: dict[str, Any]) -> str:
    return "no event time" if told["begin"] is None else f"{clock_time(told['begin'])} to {clock_time(told['end'])}"


def _finding(finding: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"state": finding.state, "sentence": finding.sentence}
    if finding.chunk is not None:
        told |= {
            **finding.chunk._asdict(),
            "manifest": finding.manifest,
            "position": finding.position,
            "batch": finding.batch,
        }
        del told["key"]
    return told


def _console() -> Console:
    return Console(soft_wrap=True, highlight=False, markup=False)


def _print_json(told: Any) -> None:
    print(json.dumps(told, indent=1))  # noqa: T201 - for machines, as it is
