"""Declares a test as a rule, and turns it into a check that anyone may call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from tidegate.conformance.abilities import Ability
from tidegate.conformance.checker import enforce
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.rules import Check, Level, Rule, Test, Tier, add_rule

__all__ = ["rule"]


def rule(  # noqa: PLR0913 - all of it is said once, by name
    id: str,  # noqa: A002 - the word of the reports
    title: str,
    *,
    purpose: str,
    tested: str,
    passes: str,
    look_at: Iterable[str],
    level: Level = Level.MUST,
    tier: Tier = Tier.CONTRACT,
    needs: Iterable[Ability] = (),
    witness: Iterable[str] = (),
    source: str = "",
    waits: bool = True,
) -> Callable[[Test], Check]:
    """Declare a test as a rule, and return its check: a function that anyone may call with a harness.

    Raises OptionError for an id that is taken or of no known area.
    """

    def add(test: Test) -> Check:
        declared = Rule(
            id,
            title,
            level,
            tier,
            purpose,
            tested,
            passes,
            tuple(look_at),
            test,
            frozenset(needs),
            tuple(witness),
            source,
            waits,
        )
        add_rule(declared)

        @functools.wraps(test)
        def check(harness: HarnessFactory) -> None:
            enforce(declared, harness)

        return check

    return add
