"""The demonstration's result as one HTML page, and as a table.  Pure: from results to text."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from tidegate.jobs.chart import chart
from tidegate.jobs.demo import Demo
from tidegate.jobs.figures import count, share, span
from tidegate.jobs.trace import trace
from tidegate.jobs.windowed_count import CountRun

__all__ = ["COLUMNS", "page", "row"]

COLUMNS = (
    "run",
    "rows in",
    "counted",
    "in open windows",
    "lost",
    "Spark's drop metric",
    "peak state rows",
    "batches",
    "seconds",
)

_HOW = {
    "unaligned": "Each batch takes a share of every split's backlog.",
    "aligned": "Each batch reads every split up to one event time, the bound.",
}


def row(run: CountRun) -> tuple[str, ...]:
    """Return the cells of a run, one for each of COLUMNS."""
    return (
        run.name,
        count(run.rows_in),
        count(run.counted),
        count(run.open),
        f"{count(run.lost)} ({share(run.lost, run.rows_in)})",
        count(run.dropped_by_spark),
        count(run.peak_state_rows),
        count(len(run.batches)),
        f"{run.seconds:.1f}",
    )


def page(demo: Demo) -> str:
    """Return the page, which needs no other file and no network."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    worst, best = max(demo.runs, key=lambda run: run.lost), min(demo.runs, key=lambda run: run.lost)
    late = max(demo.history, key=lambda split: demo.history[split].begin_ms or 0)
    return template.substitute(
        headline=escape(
            f"The same count of the same topic: {count(worst.lost)} rows lost {worst.name}, "
            f"{count(best.lost) if best.lost else 'none'} {best.name}"
        ),
        introduction=escape(
            f"{count(best.rows_in)} rows in {len(demo.history)} splits that hold {_length(demo)} of event time; "
            f"{late} was added late and holds only the end of it."
        ),
        runs="\n".join(_run(demo, run) for run in demo.runs),
        legend="\n".join(_legend(demo)),
        columns="".join(f"<th>{escape(column)}</th>" for column in COLUMNS),
        rows="\n".join(_table_row(run) for run in demo.runs),
        footer=(
            "A windowed count with a watermark, in append mode. "
            "Rows in open windows wait for the watermark to pass. "
            "Spark's drop metric counts the groups that each task dropped, not the rows in them. "
            f"Made by <code>tidegate demo --rows {best.rows_in}</code>."
        ),
    )


def _run(demo: Demo, run: CountRun) -> str:
    lost = f"{count(run.lost)} of {count(run.rows_in)} rows lost ({share(run.lost, run.rows_in)})"
    verdict = (
        f'<p class="lost">{lost}</p>' if run.lost else f'<p class="kept">None of {count(run.rows_in)} rows lost</p>'
    )
    end_ms = max(stretch.end_ms or 0 for stretch in demo.history.values())
    picture = chart(
        trace(run.batches, demo.history),
        end_ms,
        f"{run.name}: event time reached by each split after each batch. {lost}.",
        [f"{count(run.lost)} rows read below", "Spark's watermark: lost"],
    )
    return (
        f'<article class="run"><h2>{escape(run.name.capitalize())}</h2>'
        f"<p>{escape(_HOW.get(run.name, ''))}</p>{verdict}\n{picture}</article>"
    )


def _legend(demo: Demo) -> list[str]:
    splits = [
        (f'<polyline class="split split-{i}" stroke-width="4" points="0,6 30,6"/>', f"{split}, event time reached")
        for i, split in enumerate(demo.history)
    ]
    others = [
        ('<path class="bound" d="M0 10H15V2H30"/>', "bound of each batch"),
        (f'<rect class="pause pause-{len(splits) - 1}" y="-1" width="30" height="14" rx="3"/>', "paused"),
        ('<path class="watermark" d="M0 6H30"/>', "Spark's watermark"),
        ('<rect class="late" y="-1" width="30" height="14"/>', "read below the watermark: dropped"),
    ]
    return [f'<li><svg viewBox="0 0 30 12">{mark}</svg>{escape(text)}</li>' for mark, text in splits + others]


def _table_row(run: CountRun) -> str:
    lost = COLUMNS.index("lost")
    verdict = ' class="lost"' if run.lost else ' class="kept"'
    cells = (f"<td{verdict if i == lost else ''}>{escape(cell)}</td>" for i, cell in enumerate(row(run)))
    return f"<tr>{''.join(cells)}</tr>"


def _length(demo: Demo) -> str:
    stretches = demo.history.values()
    begin_ms = min(s.begin_ms for s in stretches if s.begin_ms is not None)
    return span(max(s.end_ms for s in stretches if s.end_ms is not None) - begin_ms)
