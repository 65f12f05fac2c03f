"""The rules as data: what a connector must hold to, how it is found out, and what to look at when it does not.

The documentation, the report, the command line and the table of mutants are made from these.
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
    "SPLIT": "which splits there are",
    "READ": "what a range gives",
    "STATE": "what a restart goes on from",
    "TIME": "watermark and event time",
    "ALIGN": "splits kept together in event time",
    "LIFE": "what is opened, closed, said and hidden",
    "WHOLE": "lives of a query in which anything happens",
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
    """What a rule needs to be checked, from the quickest to the slowest."""

    CONTRACT = "the enumerator and the reader alone, in this process and in another one"
    STATEFUL = "whole lives of a query, made up by Hypothesis, on a clock of their own"
    SPARK = "real queries"
    FAULTS = "a side that fails while it is read, and processes that are killed"


Test: TypeAlias = Callable[["Lab"], None]
Check: TypeAlias = Callable[[HarnessFactory], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a connector holds to.

    id: stable: area and number; a rule that is dropped leaves its number unused.
    title: a few words.
    purpose: what goes wrong without it.
    tested: how it is tested.
    passes: what is seen when it passes.
    needs: abilities without which it is skipped.
    waits: whether it waits for rows, which a broken connector never finds; those that do not come first.
    witness: what must have been seen by the end, or nothing was tested (Beam: "completed vacuously").
    look_at: what to look at when it fails, most likely first.
    source: where the rule comes from.
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
        """What tests it without pytest: called with a harness, raises ConformanceError."""
        check: Check = getattr(import_module(self.test.__module__), self.test.__name__)
        return check

    @property
    def order(self) -> tuple[int, int]:
        """The order in which rules are shown: by area and number."""
        return list(AREAS).index(self.area), int(self.id.partition("-")[2])

    @property
    def turn(self) -> tuple[int, bool, tuple[int, int]]:
        """The order in which rules are checked: the quick ones tell first what is wrong."""
        return list(Tier).index(self.tier), self.waits, self.order


_RULES: dict[str, Rule] = {}


def add_rule(made: Rule) -> None:
    """Let there be one rule more.  Raises OptionError for an id that is taken or of no known area."""
    area, _, number = made.id.partition("-")
    if made.id in _RULES or area not in AREAS or not number.isdecimal() or number[0] == "0":
        raise OptionError(f"{made.id!r} is taken, or is no area and number such as READ-1")
    _RULES[made.id] = made


def all_rules() -> list[Rule]:
    """Return every rule, by area and number."""
    import_module("tidegate.conformance.checks")  # makes the rules

    return sorted(_RULES.values(), key=lambda each: each.order)


def rules_of(tiers: Iterable[Tier]) -> list[Rule]:
    """Return the rules of some tiers, in the order in which they are checked."""
    wanted = set(tiers)
    return sorted((each for each in all_rules() if each.tier in wanted), key=lambda each: each.turn)


def tier_named(option: str, name: str) -> Tier:
    """Return a tier by its name in small letters.  Raises OptionError, which names the option."""
    known = {each.name.lower(): each for each in Tier}
    if name not in known:
        raise OptionError(f"{option} is {name!r}, but {', '.join(known)} are the tiers{did_you_mean(name, known)}")
    return known[name]


def rule_named(name: str) -> Rule:
    """Return a rule by its id.  Raises OptionError for an id that no rule has."""
    known = {each.id: each for each in all_rules()}
    if name not in known:
        raise OptionError(f"there is no rule {name!r}{did_you_mean(name, known)}")
    return known[name]
