"""The rules: plain functions, each with its text as its docstring.

The report, the command line and docs/reference/conformance-rules.md are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from inspect import getdoc
from pkgutil import iter_modules
from typing import Any, TypeAlias

from tidegate.conformance.lab.base import BaseLab
from tidegate.conformance.lab.lab import Lab
from tidegate.errors import OptionError, did_you_mean

AREAS = {
    "LIFE": "constructors, closing, messages and secrets",
    "SPLIT": "discovery of splits",
    "READ": "rows of ranges",
    "STATE": "restarts and snapshots",
    "TIME": "watermark and event time",
    "ALIGN": "splits kept together in event time",
    "WHOLE": "random lives of a query",
    "SPARK": "as Spark runs it",
    "FAULT": "while the other side fails",
    "SOURCE": "what Spark asks of a data source",
    "BATCH": "batch queries",
    "STREAM": "streaming queries",
}
"""The areas of rules, in the order in which they are checked and shown.

Leaks come first: with one, the other rules would end for lack of files, and name no leak.
"""


class Tier(Enum):
    """The means by which a rule is checked, from the quickest to the slowest."""

    CONTRACT = "the enumerator and the reader alone, in this process and in another one"
    SPARK = "real queries"
    FAULTS = "a side that fails while it is read"


Test: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that a connector or a data source keeps.

    id: stable: area and number; the number of a dropped rule stays unused.
    test: looks at one of them in a lab; raises ConformanceError.  Its docstring has a title, the reason, and where to
        look when it fails.
    lab: the kind of lab in which it is tested: that of connectors, or of any data source of PySpark.
    needs: abilities; without one it is skipped.
    witness: events that must have been seen, or nothing was tested (Beam: "completed vacuously").
    """

    id: str
    test: Test
    tier: Tier = Tier.CONTRACT
    needs: frozenset[Enum] = frozenset()
    witness: tuple[str, ...] = ()
    lab: type[BaseLab] = Lab

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition("-")[0]

    @property
    def title(self) -> str:
        """The rule in a few words."""
        return (getdoc(self.test) or "").partition("\n")[0].rstrip(".")

    @property
    def text(self) -> str:
        """Why the rule is there, when it holds, and where to look when it fails."""
        return (getdoc(self.test) or "").partition("\n")[2].strip()

    @property
    def turn(self) -> tuple[int, int, int]:
        """The order in which rules are checked: by tier, area and number."""
        return list(Tier).index(self.tier), list(AREAS).index(self.area), int(self.id.partition("-")[2])


_RULES: dict[str, Rule] = {}


def rule(
    name: str,
    *,
    tier: Tier = Tier.CONTRACT,
    needs: Iterable[Enum] = (),
    witness: Iterable[str] = (),
    lab: type[BaseLab] = Lab,
) -> Callable[[Test], Test]:
    """Declare a function as a rule."""

    def add(test: Test) -> Test:
        _RULES[name] = Rule(name, test, tier, frozenset(needs), tuple(witness), lab)
        return test

    return add


def all_rules() -> list[Rule]:
    """Return every rule, in the order in which they are checked."""
    from tidegate.conformance import checks

    for module in iter_modules(checks.__path__, f"{checks.__name__}."):
        import_module(module.name)  # which declares its rules
    return sorted(_RULES.values(), key=lambda member: member.turn)


def rules_of(tiers: Iterable[Tier], only: Iterable[str] = (), lab: type[BaseLab] = Lab) -> list[Rule]:
    """Return the rules of some tiers.

    only: ids of the wanted ones; none: all.
    lab: the kind of lab in which they are tested.

    Raises OptionError for an unknown id, and if no rule is left.
    """
    wanted, named = set(tiers), {rule_named(name).id for name in only}
    kind = [member for member in all_rules() if member.lab is lab]
    rules = [member for member in kind if member.tier in wanted and (not named or member.id in named)]
    if not rules:
        raise OptionError("there is nothing to check: these tiers have no such rule")
    return rules


def rule_named(name: str) -> Rule:
    """Return a rule by its id.  Raises OptionError for an id that no rule has."""
    known = {member.id: member for member in all_rules()}
    if name not in known:
        raise OptionError(f"there is no rule {name!r}{did_you_mean(name, known)}")
    return known[name]
