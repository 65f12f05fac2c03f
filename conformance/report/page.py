"""Formats reports as one HTML page.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from tidegate.conformance.report.summary import ends
from tidegate.conformance.rules import AREAS, Level, Rule, Tier
from tidegate.conformance.verdicts import Report, Status, Verdict
from tidegate.frame import frame
from tidegate.version import __version__


def report_page(reports: Sequence[Report]) -> str:
    """Return the page, which needs no other file and no network."""
    failing = [report for report in reports if not report.conforms]
    if len(reports) == 1:
        headline = reports[0].headline
    else:
        headline = f"{len(reports)} connectors: {len(reports) - len(failing)} conform, {len(failing)} do not"
    return frame(
        title=f"tidegate conformance: {headline}",
        headline=headline,
        introduction=" ".join(f"{level.name}: {level.value}." for level in Level),
        style=files(__package__).joinpath("page.css").read_text(encoding="utf-8"),
        body="\n".join(_connector(report, alone=len(reports) == 1) for report in reports) + "\n",
        footer=f"Made by tidegate {__version__}: <code>tidegate conformance --report FILE.html</code>, "
        "<code>pytest --conformance-report FILE.html</code>.",
    )


def _connector(report: Report, *, alone: bool) -> str:
    parts = [] if alone else [f'<h1 class="{"kept" if report.conforms else "lost"}">{escape(report.headline)}</h1>']
    parts.append(_tiles(report))
    failures = report.failures
    if failures:
        parts.append(_card("What fails", "", [_rule(verdict, opened=True) for verdict in failures]))
    for area, verdicts in report.by_area.items():
        rules = [_rule(verdict, opened=False) for verdict in verdicts]
        parts.append(_card(area, f"{AREAS[area]}: {ends(verdicts)}", rules))
    if report.opted_out:
        parts.append(_opted_out(report))
    if report.unchecked:
        titles = [_sentence("", f"{rule.id} {rule.title} ({_kind(rule)})") for rule in report.unchecked]
        parts.append(_card("Not checked", "left out by tier or by rule", titles))
    return f'<section class="connector">{"".join(parts)}</section>'


def _tiles(report: Report) -> str:
    counts = [(status, report.counts[status]) for status in Status if report.counts[status]]
    tiles = (f'<li class="{_class(status)}"><b>{count}</b>{status.value}</li>' for status, count in counts)
    seconds = sum(verdict.seconds for verdict in report)
    return f'<ul class="tiles">{"".join(tiles)}<li><b>{seconds:.1f}</b>seconds</li></ul>'


def _card(heading: str, text: str, parts: Iterable[str]) -> str:
    return f'<article class="area"><h2>{escape(heading)}<small>{escape(text)}</small></h2>{"".join(parts)}</article>'


def _rule(verdict: Verdict, *, opened: bool) -> str:
    rule, status = verdict.rule, verdict.status
    summary = (
        f'<summary><span class="end">{status.value}</span><code>{rule.id}</code><span>{escape(rule.title)}</span>'
        f'<span class="kind">{_kind(rule)}, {verdict.seconds:.1f} s</span></summary>'
    )
    reason = status in {Status.SKIPPED, Status.EXEMPT}
    why = _sentence("why", verdict.text.partition("\n")[0]) if reason and not opened else ""
    details = f"<pre>{escape(verdict.text)}</pre>" if verdict.text else ""
    if verdict.story and status is not Status.PASSED:
        details += f"<p>What was done:</p><ol>{_items(verdict.story)}</ol>"
    return (
        f'<details class="{_class(status)}"{" open" if opened else ""}>{summary}'
        f'<div class="told">{details}{_described(verdict)}</div></details>{why}'
    )


def _described(verdict: Verdict) -> str:
    rule = verdict.rule
    entries = [
        ("look at", f"<ul>{_items(verdict.look_at)}</ul>"),
        ("purpose", escape(rule.purpose)),
        ("tested", escape(rule.tested)),
        ("passes when", escape(rule.passes)),
        ("needs", escape(", ".join(sorted(ability.name for ability in rule.needs)))),
        ("source", escape(rule.source)),
    ]
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{html}</dd>' for name, html in entries if html)}</dl>"


def _opted_out(report: Report) -> str:
    rows = "".join(
        f"<tr><td><code>{ability.name}</code></td><td>{'cannot' if why.for_ever else 'does not yet'}</td>"
        f"<td>{escape(ability.value)}</td><td>{escape(why.reason)}</td></tr>"
        for ability, why in sorted(report.opted_out.items(), key=lambda entry: (not entry[1].for_ever, entry[0].name))
    )
    head = "".join(f"<th>{name}</th>" for name in ("ability", "", "what it is", "why not"))
    table = f'<table class="opted"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return _card("Opted out of", "abilities that the connector goes without", [f'<div class="scroll">{table}</div>'])


def _sentence(css: str, text: str) -> str:
    return f'<p class="{css}">{escape(text)}</p>'


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def _kind(rule: Rule) -> str:
    return f"{rule.level.name}, {rule.tier.name.lower()}" if rule.tier is not Tier.CONTRACT else rule.level.name


def _class(status: Status) -> str:
    return status.name.lower().replace("_", "-")
