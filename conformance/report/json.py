"""Formats reports as JSON: for machines, and for the way from pytest's worker processes.

Keys are stable: new ones are added, and a change of meaning raises ``version``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.conformance.abilities import Ability, OptOut
from tidegate.conformance.rules import rule_named
from tidegate.conformance.verdicts import Report, Status, Verdict
from tidegate.version import __version__

VERSION = 1


def reports_told(reports: Iterable[Report]) -> dict[str, Any]:
    """Return reports as one document."""
    return {"version": VERSION, "tidegate": __version__, "reports": [_report_told(report) for report in reports]}


def verdict_told(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    rule = verdict.rule
    return {
        "rule": rule.id,
        "title": rule.title,
        "level": rule.level.name.lower(),
        "tier": rule.tier.name.lower(),
        "status": verdict.status.name.lower(),
        "fails": verdict.fails,
        "text": verdict.text,
        "story": list(verdict.story),
        "seconds": round(verdict.seconds, 3),
        "connector": verdict.connector,
        "raised": verdict.raised,
        "hereOnly": verdict.here_only,
    }


def verdict_sent(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON, with the abilities that its connector opts out of."""
    return {**verdict_told(verdict), "optedOut": _opted_out_told(verdict.opted_out)}


def verdict_from(data: dict[str, Any]) -> Verdict:
    """Return the verdict from the JSON of ``verdict_sent``.  Raises OptionError for a rule of another version."""
    return Verdict(
        rule_named(data["rule"]),
        Status[data["status"].upper()],
        data["text"],
        tuple(data["story"]),
        data["seconds"],
        data["connector"],
        data["raised"],
        here_only=data["hereOnly"],
        opted_out={Ability[a["ability"]]: OptOut(a["reason"], a["why"] == "cannot") for a in data["optedOut"]},
    )


def _opted_out_told(opted_out: Mapping[Ability, OptOut]) -> list[dict[str, str]]:
    return [
        {"ability": ability.name, "why": "cannot" if why.for_ever else "does not yet", "reason": why.reason}
        for ability, why in opted_out.items()
    ]


def _report_told(report: Report) -> dict[str, Any]:
    return {
        "connector": report.connector,
        "optedOut": _opted_out_told(report.opted_out),
        "conforms": report.conforms,
        "headline": report.headline,
        "counts": {status.name.lower(): report.counts[status] for status in Status},
        "rules": [verdict_told(verdict) for verdict in report],
        "notChecked": [rule.id for rule in report.unchecked],
    }
