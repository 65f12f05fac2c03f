"""The conformance kit: proves that a connector keeps the contracts, and explains where it does not."""

from __future__ import annotations

from tidegate.conformance.abilities import Abilities, Ability
from tidegate.conformance.checker import check_connector
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.harness import Fault, Harness, Row, Writer
from tidegate.conformance.rules import Level, Rule, Tier, all_rules
from tidegate.conformance.verdicts import Report, Status, Verdict

__all__ = [
    "Abilities",
    "Ability",
    "ConformanceError",
    "Fault",
    "Harness",
    "Level",
    "Report",
    "Row",
    "Rule",
    "Status",
    "Tier",
    "Verdict",
    "Writer",
    "all_rules",
    "check_connector",
]
