"""The layout of pages with charts and a table.  Pure logic: from pieces of HTML to a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

_LINE = '<polyline class="split {}" stroke-width="2" points="0,6 30,6"/>'
_MARKS = {
    "bound": '<path class="bound" d="M0 10H15V2H30"/>',
    "watermark": '<path class="watermark" d="M0 6H30"/>',
    "source-watermark": '<path class="source-watermark" d="M0 6H30"/>',
    "late": '<rect class="late" y="-1" width="30" height="14"/>',
    "band": '<rect class="band" y="-1" width="30" height="14"/>',
    "marked": '<rect class="marked" y="-1" width="30" height="14"/>',
    **{name: _LINE.format(name) for name in ("slowest", "median", "fastest")},
}


def layout(
    *,
    title: str,
    headline: str,
    introduction: str,
    figures: Iterable[str],
    below: str,
    footer: str,
    head: str = "",
) -> str:
    """Return a page that needs no other file and no network; it is light or dark like the reader's system.

    below: what follows the figures, such as the ``table`` of all runs.
    figures, below, footer, head: HTML; all else is text.
    """
    cards = "\n".join(figures)
    return Template(_text("page.html")).substitute(
        title=escape(title),
        headline=escape(headline),
        introduction=escape(introduction),
        style=_text("page.css"),
        body=f'<section class="runs">\n{cards}\n</section>\n{below}\n',
        footer=footer,
        head=head,
    )


def figure(heading: str, text: str, html: str) -> str:
    """Return a card: a heading, a sentence, and the content below them."""
    return f'<article class="run"><h2>{escape(heading)}</h2><p>{escape(text)}</p>{html}</article>'


def legend(entries: Iterable[str]) -> str:
    """Return the legend of a picture."""
    return "\n".join(['<ul class="legend">', *entries, "</ul>"])


def key(name: str, text: str) -> str:
    """Return the entry of the legend for the marks of a class."""
    return _entry(_MARKS[name], text)


def split_key(index: int, text: str) -> str:
    """Return the entry of the legend for a split's line."""
    return _entry(f'<polyline class="split split-{index}" stroke-width="4" points="0,6 30,6"/>', text)


def pause_key(index: int) -> str:
    """Return the entry of the legend for pauses, in the colour of one split."""
    return _entry(f'<rect class="pause pause-{index}" y="-1" width="30" height="14" rx="3"/>', "paused")


def _entry(mark: str, text: str) -> str:
    return f'<li><svg viewBox="0 0 30 12">{mark}</svg>{escape(text)}</li>'


def table(columns: Sequence[str], rows: Iterable[str]) -> str:
    """Return a table; each row is the HTML of ``table_row``."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(rows)
    return f'<div class="scroll">\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>'


def table_row(cells: Sequence[str], classes: Mapping[int, str]) -> str:
    """Return a row of the table; ``classes`` has the classes of some cells, counted from 0."""
    html = (
        f'<td class="{classes[i]}">{escape(cell)}</td>' if i in classes else f"<td>{escape(cell)}</td>"
        for i, cell in enumerate(cells)
    )
    return f"<tr>{''.join(html)}</tr>"


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
