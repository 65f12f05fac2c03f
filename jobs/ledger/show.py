"""Prints the ledger of a query, for people or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count
from tidegate.jobs.ledger.query_ledger import KeptQuery, QueryLedger
from tidegate.jobs.ledger.reread import Asked
from tidegate.jobs.ledger.why import Why

__all__ = ["show_asked", "show_ledger", "show_queries", "show_why"]

_OBJECTS = 100  # shown to people; JSON has all


class _PlainConsole(Console):
    """Escapes characters that cannot be printed: a key may hold a command for the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text with an escape for each character that cannot be printed."""
        shown = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
        return super().render_str(shown, **options)


def show_ledger(ledger: QueryLedger, *, as_json: bool) -> None:
    """Print the user of the location, the manifests, and the remembered objects."""
    shown = _told(ledger)
    if as_json:
        _print_json(shown)
        return
    lines = [*_lines(shown), *(line for manifest in shown["manifests"] for line in _manifest_lines(ledger, manifest))]
    width = max(len(name) for name, _ in lines)
    console = _console()
    for name, value in lines:
        console.print(f"{name:<{width}}  {value}")


def show_why(answers: Sequence[Why], *, as_json: bool) -> None:
    """Print the findings about objects."""
    if as_json:
        _print_json([{"key": answer.key, "findings": [_finding(f) for f in answer.findings]} for answer in answers])
        return
    console = _console()
    if not answers:
        console.print("No such object is known.")
    for answer in answers[:_OBJECTS]:
        console.print(answer.key, style="bold")
        for finding in answer.findings:
            console.print(f"  {finding.state}: {finding.sentence}")
    if len(answers) > _OBJECTS:
        console.print(f"and {count(len(answers) - _OBJECTS)} more; --json prints them all")


def show_asked(asked: Asked, *, as_json: bool) -> None:
    """Print the request to read again."""
    cost = asked.chunks.cost(0, len(asked.chunks))
    shown: dict[str, Any] = {
        "request": asked.request,
        "chunks": len(asked.chunks),
        "bytes": cost.bytes,
        "notYetRead": asked.waiting,
        **_times(asked.chunks),
    }
    if as_json:
        _print_json(shown)
        return
    console = _console()
    console.print(
        f"{counted(shown['chunks'], 'chunk')}, {counted(cost.bytes, 'byte')}, {_span(shown)}: the next discovery round "
        f"of the query reads {'it' if shown['chunks'] == 1 else 'them'} once more ({asked.request})"
    )
    if asked.waiting:
        console.print(f"left out, because the query has not read it yet: {counted(asked.waiting, 'chunk')}")


def show_queries(queries: Sequence[KeptQuery], *, forgotten: bool, as_json: bool) -> None:
    """Print the size of queries' files in a state location.

    forgotten: the files of these queries were just deleted.
    """
    shown: list[dict[str, Any]] = [
        {
            "query": query.owner,
            "lease": None if query.lease is None else query.lease.state,
            "written": None if query.kept.written_s is None else int(query.kept.written_s * 1000),
            "files": query.kept.files,
            "bytes": query.kept.bytes,
        }
        for query in queries
    ]
    if as_json:
        _print_json(shown)
        return
    console = _console()
    if not shown:
        console.print("no query keeps anything here")
    for row in shown:
        used = "" if row["lease"] is None else f", has used it last: {row['lease']}"
        size = (
            f"{counted(row['files'], 'file')}, {counted(row['bytes'], 'byte')}, written on {clock_time(row['written'])}"
        )
        console.print(f"{row['query']}  {size}{used}{'; deleted' if forgotten else ''}")


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
        "leftOut": dict(Counter(note.reason for note in ledger.left_out.objects())),
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


def _lines(shown: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("state location", shown["stateLocation"]),
        ("query", shown["query"]),
        ("lease", f"{shown['lease']}, {shown['process']}"),
    ]
    if shown["batch"] is not None:
        lines += [
            ("last batch", f"{shown['batch']}, {'written' if shown['batchIsWritten'] else 'not written yet'}"),
            ("bound", clock_time(shown["bound"])),
            ("watermark", clock_time(shown["watermark"])),
        ]
    if shown["objectsRemembered"] is not None:
        since = shown["rememberedSince"]
        all_that = "all that were ever found" if since is None else f"modified since {clock_time(since)}"
        lines.append(("remembered", f"{counted(shown['objectsRemembered'], 'object')}, {all_that}"))
    if shown["leftOut"]:
        lines.append(("left out", ", ".join(f"{count(n)} {reason}" for reason, n in shown["leftOut"].items())))
    if shown["rereads"]:
        lines.append(("to read again", f"{counted(sum(shown['rereads'].values()), 'chunk')}, by request"))
    return lines


def _manifest_lines(ledger: QueryLedger, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = ", ".join(counted(manifest[f"{unit}s"], unit) for unit in ("chunk", "object", "byte"))
    lines = [(manifest["manifest"], sizes), ("", _span(manifest))]
    return lines if ledger.batches is None else [*lines, ("", _reading(manifest))]


def _reading(manifest: dict[str, Any]) -> str:
    last = "" if manifest["batch"] is None else f", last by batch {manifest['batch']}"
    if manifest["planned"] is None:
        return f"all its chunks in known batches are read{last}" if last else "no batch that Spark still knows names it"
    done = manifest["read"] or 0
    planned = f", {count(manifest['planned'])} planned" if manifest["planned"] > done else ""
    return f"{counted(done, 'chunk')} read{planned}{last}"


def _span(shown: dict[str, Any]) -> str:
    return "no event time" if shown["begin"] is None else f"{clock_time(shown['begin'])} to {clock_time(shown['end'])}"


def _finding(finding: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"state": finding.state, "sentence": finding.sentence}
    if finding.chunk is not None:
        shown |= {
            **finding.chunk._asdict(),
            "manifest": finding.manifest,
            "position": finding.position,
            "batch": finding.batch,
        }
        del shown["key"]
    return shown


def _console() -> Console:
    return _PlainConsole(soft_wrap=True, highlight=False, markup=False)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))  # noqa: T201 - for machines, as it is
