"""The rules as data: each with its test, its purpose, and hints for a failure.

The documentation, the report, the command line and the table of mutants are generated from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from tidegate.conformance.abilities import Ability
from tidegate.conformance.harness import HarnessFactory
from tidegate.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from tidegate.conformance.lab.lab import Lab

__all__ = [
    "AREAS",
    "Check",
    "Level",
    "Rule",
    "Test",
    "Tier",
    "add_rule",
    "all_rules",
    "rule_named",
    "rules_of",
    "tier_named",
]

AREAS = {
    "SPLIT": "discovery of splits",
    "READ": "rows of ranges",
    "STATE": "restarts and snapshots",
    "TIME": "watermark and event time",
    "ALIGN": "splits kept together in event time",
    "LIFE": "constructors, closing, messages and secrets",
    "WHOLE": "random lives of a query",
    "SPARK": "as Spark runs it",
    "FAULT": "while the other side fails",
}
"""The areas of rules, in the order in which they are shown."""


class Level(Enum):
    """How binding a rule is (RFC 2119)."""

    MUST = "without it rows are lost, doubled or late, or queries hang"
    SHOULD = "without it people lose time"
    MAY = "good to have"


class Tier(Enum):
    """The means by which a rule is checked, from the quickest to the slowest."""

    CONTRACT = "the enumerator and the reader alone, in this process and in another one"
    STATEFUL = "whole lives of a query, made up by Hypothesis, on a clock of their own"
    SPARK = "real queries"
    FAULTS = "a side that fails while it is read, and processes that are killed"


Test: TypeAlias = Callable[["Lab"], None]
Check: TypeAlias = Callable[[HarnessFactory], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that a connector keeps.

    id: stable: area and number; the number of a dropped rule stays unused.
    title: a few words.
    purpose: the failure without it.
    tested: how it is tested.
    passes: the condition for passing.
    needs: abilities; without one it is skipped.
    waits: whether it waits for rows, which a broken connector never finds; rules that do not wait come first.
    witness: events that must have been seen, or nothing was tested (Beam: "completed vacuously").
    look_at: hints for a failure, most likely first.
    source: of the rule.
    test: looks at one connector in a lab; raises ConformanceError.
    """

    id: str
    title: str
    level: Level
    tier: Tier
    purpose: str
    tested: str
    passes: str
    look_at: tuple[str, ...]
    test: Test
    needs: frozenset[Ability] = frozenset()
    witness: tuple[str, ...] = ()
    source: str = ""
    waits: bool = True

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition("-")[0]

    @property
    def check(self) -> Check:
        """The function that tests it without pytest: takes a harness, raises ConformanceError."""
        check: Check = getattr(import_module(self.test.__module__), self.test.__name__)
        return check

    @property
    def order(self) -> tuple[int, int]:
        """The order in which rules are shown: by area and number."""
        return list(AREAS).index(self.area), int(self.id.partition("-")[2])

    @property
    def turn(self) -> tuple[int, bool, bool, tuple[int, int]]:
        """The order in which rules are checked: quick ones first, and then those about what a connector leaves open.

        With such a leak, the other rules would end for lack of files, and name no leak.
        """
        return list(Tier).index(self.tier), self.waits, self.area != "LIFE", self.order


_RULES: dict[str, Rule] = {}


def add_rule(added: Rule) -> None:
    """Add a rule.  Raises OptionError for an id that is taken or of no known area."""
    area, _, number = added.id.partition("-")
    if added.id in _RULES or area not in AREAS or not number.isdecimal() or number[0] == "0":
        raise OptionError(f"{added.id!r} is taken, or is no area and number such as READ-1")
    _RULES[added.id] = added


def all_rules() -> list[Rule]:
    """Return every rule, by area and number."""
    import_module("tidegate.conformance.checks")  # the import declares the rules

    return sorted(_RULES.values(), key=lambda member: member.order)


def rules_of(tiers: Iterable[Tier]) -> list[Rule]:
    """Return the rules of some tiers, in the order in which they are checked."""
    wanted = set(tiers)
    return sorted((member for member in all_rules() if member.tier in wanted), key=lambda member: member.turn)


def tier_named(option: str, name: str) -> Tier:
    """Return a tier by its name in small letters.  Raises OptionError, which names the option."""
    known = {tier.name.lower(): tier for tier in Tier}
    if name not in known:
        raise OptionError(f"{option} is {name!r}, but {', '.join(known)} are the tiers{did_you_mean(name, known)}")
    return known[name]


def rule_named(name: str) -> Rule:
    """Return a rule by its id.  Raises OptionError for an id that no rule has."""
    known = {member.id: member for member in all_rules()}
    if name not in known:
        raise OptionError(f"there is no rule {name!r}{did_you_mean(name, known)}")
    return known[name]
