"""Reports as JSON: for machines, and on their way from the processes in which pytest runs tests.

Keys are stable: what is new is added, and what changes its meaning raises ``version``.
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
    return {"version": VERSION, "tidegate": tidegate_version(), "reports": [_report_told(each) for each in reports]}


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
    }


def verdict_from(told: dict[str, Any]) -> Verdict:
    """Return the verdict of which ``verdict_told`` gave the JSON.  Raises OptionError for a rule of another version."""
    return Verdict(
        rule_named(told["rule"]),
        Status[told["status"].upper()],
        told["text"],
        tuple(told["story"]),
        told["seconds"],
        told["connector"],
        told["raised"],
    )


def opted_out_told(found: OptedOut) -> dict[str, Any]:
    """Return what a connector goes without as JSON."""
    return {
        "connector": found.connector,
        "optedOut": [
            {"ability": ability.name, "why": "cannot" if why.for_ever else "does not yet", "reason": why.reason}
            for ability, why in found.abilities.items()
        ],
        "staleOptOuts": [{"ability": ability.name, "sentence": why} for ability, why in found.stale.items()],
    }


def opted_out_from(told: dict[str, Any]) -> OptedOut:
    """Return that of which ``opted_out_told`` gave the JSON."""
    return OptedOut(
        told["connector"],
        {Ability[each["ability"]]: OptOut(each["reason"], each["why"] == "cannot") for each in told["optedOut"]},
        {Ability[each["ability"]]: each["sentence"] for each in told["staleOptOuts"]},
    )


def tidegate_version() -> str:
    """Return which version of tidegate this is; empty where it is not installed."""
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
