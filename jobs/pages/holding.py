"""The card of a page that shows what holds back a watermark of generators or markers.  Pure logic."""

from __future__ import annotations

from math import inf

from tidegate.enumerators.planning.source_progress import CompletenessProgress, GeneratedProgress
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, span, split_name
from tidegate.jobs.pages.layout import figure, table, table_row
from tidegate.jobs.pages.runs import SourceRun

_MOST_SPLITS = 20
_COLUMNS = ("split", "watermark (UTC)", "behind the furthest", "status")


def holding(run: SourceRun) -> str | None:
    """Return the card of a source; None: its watermark is planned, or there is none."""
    heading = f"{run.name}: what holds the watermark"
    if run.last.completeness is not None:
        return figure(heading, _of_folders(run.last.completeness), "")
    generated = run.last.generated
    return None if generated is None else figure(heading, _of_splits(generated), _table(generated))


def _of_folders(said: CompletenessProgress) -> str:
    until = (
        "No folder is complete yet" if said.until is None else f"Folders are complete up to {clock_time(said.until)}"
    )
    if said.held_from is None:
        return f"{until}; no folder with objects waits for its marker."
    return f"{until}; the folder of {clock_time(said.held_from)} has objects, and no marker yet."


def _of_splits(generated: GeneratedProgress) -> str:
    if generated.held_by is None:
        holder = "No split holds it: all are idle or at their ends."
    elif generated.by_split.get(generated.held_by, (None, ""))[0] is None:
        holder = f"{split_name(generated.held_by)} holds it: it has no watermark yet."
    else:
        holder = f"{split_name(generated.held_by)} holds it: its watermark is the least of the active splits."
    if generated.late_rows:
        holder += (
            f" {count(generated.late_rows)} of {counted(generated.rows, 'row')} came behind the watermark in this run."
        )
    if not generated.read_here:
        return holder
    return (
        f"{holder} The planner itself has shown {counted(generated.read_here, 'position')} to generators in this run."
    )


def _table(generated: GeneratedProgress) -> str:
    times = [at for at, _ in generated.by_split.values() if at is not None]
    # The splits that hold back others come first, and within each part the one furthest behind.
    order = sorted(generated.by_split, key=lambda split: _urgency(split, generated))
    rows = [
        table_row((split_name(split), clock_time(at), "-" if at is None else span(max(times) - at), status), {})
        for split in order[:_MOST_SPLITS]
        for at, status in [generated.by_split[split]]
    ]
    left = len(order) - _MOST_SPLITS
    more = f"<p>and {count(left)} more</p>" if left > 0 else ""
    return table(_COLUMNS, rows) + more


def _urgency(split: str, generated: GeneratedProgress) -> tuple[bool, bool, float, str]:
    at, status = generated.by_split[split]
    return split != generated.held_by, status != "active", -inf if at is None else at.timestamp(), split
