"""The running queries as an HTML page that refreshes itself.  Pure logic: from notes to text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from tidegate.alignment.durations import epoch_ms
from tidegate.enumerators.notes.progress import SAMPLE_S
from tidegate.enumerators.planning.source_progress import SourceProgress, utc_time
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, span, split_name
from tidegate.jobs.pages.axis import utc_times
from tidegate.jobs.pages.chart import chart
from tidegate.jobs.pages.layout import figure, layout, legend, table, table_row
from tidegate.jobs.pages.query import STANDING, holder, keys, no_picture, standing, states
from tidegate.jobs.pages.trace import reached_by, split_order, traced, with_axis
from tidegate.jobs.watch.sources import NOTHING, LiveSource, alerts, notices

COLUMNS = ("source", *STANDING, "late rows")
_SPLITS = ("split", "state", "reached (UTC)", "behind", "unread rows")
_STEP_MS = SAMPLE_S * 1000
_STEPS = 3600 // SAMPLE_S
_FITS = 0.97  # of the picture's width, up to the last label
_REFRESH_S = 2
_SCRIPT = f"""
setInterval(async () => {{
  try {{
    const answer = await fetch(location.href);
    if (!answer.ok) throw answer.status;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceWith(page.querySelector("main"));
    document.body.classList.remove("gone");
  }} catch {{
    document.body.classList.add("gone");
  }}
}}, {_REFRESH_S * 1000});
"""
_HEAD = (
    f'<noscript><meta http-equiv="refresh" content="{_REFRESH_S}"></noscript>\n<script>{_SCRIPT}</script>\n'
    '<style>.gone main { opacity: .5; } .gone::before { content: "tidegate watch does not answer"; display: block; '
    "padding: 8px 28px; color: var(--bad); }</style>\n"
)
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
CONTENT_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may load and run for the page: nothing else than the page itself."""


def live_page(sources: Sequence[LiveSource], now: datetime) -> str:
    """Return the page, which asks for itself again every two seconds.

    sources: with their last hours.
    """
    return layout(
        title="tidegate watch",
        headline=_headline(sources),
        introduction=f"At {clock_time(now)} UTC.",
        figures=[_card(source, now) for source in sources],
        below=table(COLUMNS, map(_row, sources)) if sources else "",
        footer=(
            "A split has reached its next row; if it is read to its end, its last known row or the watermark. "
            "Behind is the time now, minus the event time of the next row. Late rows are those that the query has "
            "dropped since its start: Spark counts groups, so there are at least as many rows. "
            "From the notes of planners. Made by <code>tidegate watch --html</code>."
        ),
        head=_HEAD,
    )


def _headline(sources: Sequence[LiveSource]) -> str:
    if not sources:
        return NOTHING
    unread = [source.progress for source in sources if source.progress.rows_remaining]
    late = {(source.application, source.query): source.dropped for source in sources if source.dropped is not None}
    left = (
        f"{counted(sum(progress.rows_remaining for progress in unread), 'row')} unread, "
        f"up to {span(max(progress.event_time_lag for progress in unread))} behind"
        if unread
        else "all rows are read"
    )
    return f"{counted(len(sources), 'source')}: {left}" + (f", late rows {_late(sum(late.values()))}" if late else "")


def _late(dropped: int | None) -> str:
    """Return how many rows a query dropped as late; Spark counts groups of them."""
    return "-" if dropped is None else f"at least {count(dropped)}" if dropped else "0"


def _card(source: LiveSource, now: datetime) -> str:
    progress = source.progress
    about = f"{source.reads}. " if source.query else ""
    text = f"{about}{source.news(now).capitalize()}: {states(progress) or 'no splits'}{holder(progress)}."
    told = "".join(f'<p class="lost">{escape(sentence)}</p>' for sentence in alerts(progress))
    if not progress.by_split:
        told += "".join(f"<p>{escape(sentence)}</p>" for sentence in notices(progress, now))
    first, plans = _hour(source, now)
    return figure(source.query or source.reads, text, told + _picture(source, first, plans) + _table(plans, now))


def _hour(source: LiveSource, now: datetime) -> tuple[int, list[SourceProgress]]:
    """Return the plans of the last hour in steps of half a minute, after the first of these steps since 1970."""
    last = epoch_ms(now) // _STEP_MS
    plans: dict[int, SourceProgress] = {}
    for at, plan in [*source.hour, (source.heard_at, source.progress)]:
        plans[min(max(epoch_ms(at) // _STEP_MS, last - _STEPS + 1), last)] = plan
    first, plan = min(*plans, last - 1), plans[min(plans)]
    # A plan holds until the next one.
    return first, [plan := plans.get(step, plan) for step in range(first, last + 1)]


def _picture(source: LiveSource, first: int, plans: Sequence[SourceProgress]) -> str:
    """Draw the plans of the last hour by time of day."""
    shown, axis = with_axis(traced(plans))
    if axis is None:
        return no_picture(source.progress)
    times = utc_times(first * _STEP_MS, (first + len(plans)) * _STEP_MS).ticks
    places = [(at_ms / _STEP_MS - first, label.split(" ")[-1]) for at_ms, label in times]
    clock = [(place, label) for place, label in places if place < _FITS * len(plans)]
    picture = chart(shown, axis, f"{source.reads}: event time of the splits in the last hour.", clock=clock)
    return picture + legend(keys(source.progress, shown))


def _table(plans: Sequence[SourceProgress], now: datetime) -> str:
    progress = plans[-1]
    if not progress.by_split:
        most = progress.most_behind
        return "" if most is None else f"<p>Furthest behind: {escape(split_name(most.split))}.</p>"
    order = sorted(progress.by_split, key=lambda split: (split != progress.held_by, split_order(split)))
    return table(_SPLITS, (_split_row(split, plans, now) for split in order))


def _split_row(split: str, plans: Sequence[SourceProgress], now: datetime) -> str:
    progress = plans[-1]
    detail = progress.by_split[split]
    is_late, since = split in progress.late_splits, progress.paused.get(split)
    state = "late" if is_late else detail.state
    if since is not None:
        state = f"{state} for {span(max(timedelta(), now - since))}"
    if split == progress.held_by and detail.rows_remaining:
        state += ", sets the bound"
    at = detail.next_event_time
    cells = (
        split_name(split),
        state,
        clock_time(utc_time(reached_by(split, plans)[-1])),
        span(max(timedelta(), now - at)) if at is not None and detail.rows_remaining else "-",
        count(detail.rows_remaining),
    )
    return table_row(cells, {1: "lost"} if is_late else {})


def _row(source: LiveSource) -> str:
    """Return the row of a source, a cell for each of COLUMNS."""
    cells = (source.query or source.reads, *standing(source.progress), _late(source.dropped))
    marked = {"read behind the watermark": source.progress.late_rows_total, "late rows": source.dropped}
    return table_row(cells, {COLUMNS.index(name): "lost" for name, rows in marked.items() if rows})
