"""Formats reports as JSON: for machines, and for the way from pytest's worker processes.

Keys are stable: new ones are added, and a change of meaning raises ``version``.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tidegate.conformance.abilities import Ability, OptOut
from tidegate.conformance.opting_out import OptedOut
from tidegate.conformance.rules import rule_named
from tidegate.conformance.verdicts import Report, Status, Verdict

__all__ = [
    "VERSION",
    "opted_out_from",
    "opted_out_told",
    "reports_told",
    "tidegate_version",
    "verdict_from",
    "verdict_told",
]

VERSION = 1


def reports_told(reports: Iterable[Report]) -> dict[str, Any]:
    """Return reports as one document."""
    return {"version": VERSION, "tidegate": tidegate_version(), "reports": [_report_told(report) for report in reports]}


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
        "throughQuery": verdict.through_query,
        "hereOnly": verdict.here_only,
    }


def verdict_from(data: dict[str, Any]) -> Verdict:
    """Return the verdict from its JSON.  Raises OptionError for a rule of another version."""
    return Verdict(
        rule_named(data["rule"]),
        Status[data["status"].upper()],
        data["text"],
        tuple(data["story"]),
        data["seconds"],
        data["connector"],
        data["raised"],
        data["throughQuery"],
        data["hereOnly"],
    )


def opted_out_told(opted: OptedOut) -> dict[str, Any]:
    """Return the abilities that a connector opts out of as JSON."""
    return {
        "connector": opted.connector,
        "optedOut": [
            {"ability": ability.name, "why": "cannot" if why.for_ever else "does not yet", "reason": why.reason}
            for ability, why in opted.abilities.items()
        ],
        "staleOptOuts": [{"ability": ability.name, "sentence": why} for ability, why in opted.stale.items()],
    }


def opted_out_from(data: dict[str, Any]) -> OptedOut:
    """Return the abilities that a connector opts out of from their JSON."""
    return OptedOut(
        data["connector"],
        {Ability[entry["ability"]]: OptOut(entry["reason"], entry["why"] == "cannot") for entry in data["optedOut"]},
        {Ability[entry["ability"]]: entry["sentence"] for entry in data["staleOptOuts"]},
    )


def tidegate_version() -> str:
    """Return the version of tidegate; empty if it is not installed."""
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return ""


def _report_told(report: Report) -> dict[str, Any]:
    return {
        **opted_out_told(OptedOut(report.connector, report.opted_out, report.stale)),
        "conforms": report.conforms,
        "headline": report.headline,
        "counts": {status.name.lower(): report.counts[status] for status in Status},
        "rules": [verdict_told(verdict) for verdict in report],
        "notChecked": [rule.id for rule in report.unchecked],
    }
