"""The frame of every HTML page of tidegate.  Pure: from pieces of HTML to a page."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

__all__ = ["frame"]


def frame(*, title: str, headline: str, introduction: str, style: str, body: str, footer: str, head: str = "") -> str:
    """Return a page that needs no other file and no network, light or dark as the reader's system is set.

    title, headline, introduction: text.
    style: CSS for the body.
    body, footer, head: HTML.
    """
    return Template(files(__package__).joinpath("frame.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        headline=escape(headline),
        introduction=escape(introduction),
        style=style,
        body=body,
        footer=footer,
        head=head,
    )
