"""Summarizes a report: a line for each area, and notes."""

from __future__ import annotations

from collections import Counter

from tidegate.conformance.rules import AREAS
from tidegate.conformance.verdicts import Report, Status, Verdict


def area_lines(report: Report) -> list[str]:
    """Return a line for each area."""
    width = max(map(len, AREAS))
    wide = max(map(len, AREAS.values()))
    return [f"{area:<{width}}  {AREAS[area]:<{wide}}  {_ends(verdicts)}" for area, verdicts in report.by_area.items()]


def notes(report: Report) -> list[str]:
    """Return a line for each rule that does not simply hold, each reason to skip rules, and each missing ability."""
    lines = []
    for verdict in report:
        if verdict.status is Status.EXEMPT:
            lines.append(f"exempt: {verdict.rule.id} {verdict.rule.title}: {verdict.text.splitlines()[0]}")
        elif not verdict.status.good:
            lines.append(f"{verdict.status.value}: {verdict.rule.id} {verdict.rule.title} ({verdict.rule.level.name})")
    here: dict[str, list[str]] = {}
    for verdict in report:
        if verdict.here_only:
            here.setdefault(verdict.text, []).append(verdict.rule.id)
    lines += [f"skipped here: {', '.join(rules)}: {why}" for why, rules in here.items()]
    return lines + [f"without {ability.name}: {why}" for ability, why in report.opted_out.items()]


def _ends(verdicts: list[Verdict]) -> str:
    """Return the number of verdicts of each kind, as a phrase."""
    counts = Counter(verdict.status for verdict in verdicts)
    return ", ".join(f"{counts[status]} {status.value}" for status in Status if counts[status])
