"""Tells what holds back a watermark of generators or markers.  Pure logic."""

from __future__ import annotations

from tidegate.enumerators.planning.source_progress import CompletenessProgress, GeneratedProgress, SourceProgress
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, split_name


def holding(last: SourceProgress) -> str:
    """Return a sentence on the last plan of a source; empty if its watermark is planned, or if there is none."""
    if last.completeness is not None:
        return f" {_of_folders(last.completeness)}"
    return "" if last.generated is None else f" {_of_splits(last.generated)}"


def _of_folders(said: CompletenessProgress) -> str:
    until = (
        "No folder is complete yet" if said.until is None else f"Folders are complete up to {clock_time(said.until)}"
    )
    if said.held_from is None:
        return f"{until}; no folder with objects waits for its marker."
    return f"{until}; the folder of {clock_time(said.held_from)} has objects, and no marker yet."


def _of_splits(generated: GeneratedProgress) -> str:
    if generated.held_by is None:
        holder = "No split holds the watermark: all are idle or at their ends."
    elif (held_at := generated.by_split.get(generated.held_by, (None, ""))[0]) is None:
        holder = f"{split_name(generated.held_by)} holds the watermark: it has none yet."
    else:
        holder = f"{split_name(generated.held_by)} holds the watermark, at {clock_time(held_at)}."
    if generated.late_rows:
        holder += (
            f" {count(generated.late_rows)} of {counted(generated.rows, 'row')} came behind the watermark in this run."
        )
    return holder
