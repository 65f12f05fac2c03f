"""The rules as data: each with its test, its purpose, and hints for a failure.

The documentation, the report, the command line and the table of mutants are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from configparser import ConfigParser
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeAlias

from tidegate.conformance.abilities import Ability
from tidegate.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from tidegate.conformance.lab.lab import Lab


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


class Tier(Enum):
    """The means by which a rule is checked, from the quickest to the slowest."""

    CONTRACT = "the enumerator and the reader alone, in this process and in another one"
    STATEFUL = "whole lives of a query, made up by Hypothesis, on a clock of their own"
    SPARK = "real queries"
    FAULTS = "a side that fails while it is read"


Test: TypeAlias = Callable[["Lab"], None]
_TEXTS = Path(__file__).with_name("rules.ini")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that a connector keeps.

    id: stable: area and number; the number of a dropped rule stays unused.
    look_at: hints for a failure, most likely first.
    test: looks at one connector in a lab; raises ConformanceError.
    needs: abilities; without one it is skipped.
    witness: events that must have been seen, or nothing was tested (Beam: "completed vacuously").
    waits: whether it waits for rows, which a broken connector never finds; rules that do not wait come first.
    """

    id: str
    title: str
    tier: Tier
    purpose: str
    tested: str
    passes: str
    look_at: tuple[str, ...]
    test: Test
    needs: frozenset[Ability] = frozenset()
    witness: tuple[str, ...] = ()
    waits: bool = True

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition("-")[0]

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


def rule(
    name: str,
    *,
    tier: Tier = Tier.CONTRACT,
    needs: Iterable[Ability] = (),
    witness: Iterable[str] = (),
    waits: bool = True,
) -> Callable[[Test], Test]:
    """Declare a function as the test of a rule, whose text is in ``rules.ini``.  Raises KeyError if it has none."""

    def add(test: Test) -> Test:
        text = {key: " ".join(value.split()) for key, value in _texts()[name].items()}
        _RULES[name] = Rule(
            name,
            text["title"],
            tier,
            text["purpose"],
            text["tested"],
            text["passes"],
            tuple(_texts()[name]["look at"].strip().splitlines()),
            test,
            frozenset(needs),
            tuple(witness),
            waits,
        )
        return test

    return add


@cache
def _texts() -> ConfigParser:
    texts = ConfigParser(interpolation=None)
    texts.read_string(_TEXTS.read_text(encoding="utf-8"))
    return texts


def all_rules() -> list[Rule]:
    """Return every rule, by area and number."""
    from tidegate.conformance import checks

    for module in iter_modules(checks.__path__, f"{checks.__name__}."):
        import_module(module.name)  # which declares its rules
    return sorted(_RULES.values(), key=lambda member: member.order)


def rules_of(tiers: Iterable[Tier], only: Iterable[str] = ()) -> list[Rule]:
    """Return the rules of some tiers, in the order in which they are checked.

    only: ids of the wanted ones; none: all.

    Raises OptionError for an unknown id, and if no rule is left.
    """
    wanted, named = set(tiers), {rule_named(name).id for name in only}
    rules = [member for member in all_rules() if member.tier in wanted and (not named or member.id in named)]
    if not rules:
        raise OptionError("there is nothing to check: no such rule is of these tiers")
    return sorted(rules, key=lambda member: member.turn)


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
