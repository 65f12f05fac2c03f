"""Verdicts on rules, the report on a connector, and its notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.rules import Rule, all_rules


class Status(Enum):
    """The status of a rule after its check."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"
    NOT_EXERCISED = "not exercised"
    EXEMPT = "exempt"
    STALE = "stale exemption"
    SKIPPED = "skipped"

    @property
    def good(self) -> bool:
        """Whether nothing needs to be done."""
        return self in {Status.PASSED, Status.EXEMPT, Status.SKIPPED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one rule.

    text: why it is not PASSED; empty if it is.
    raised: whether it failed by an unexpected error, not by a complaint of the kit.
    waited: whether an event that must come did not come in time.
    undiscovered: whether that event was that the enumerator finds the written rows.
    here_only: whether it is skipped for a reason of this machine, such as a package that is missing.
    """

    rule: Rule
    status: Status
    text: str = ""
    story: tuple[str, ...] = ()
    seconds: float = 0.0
    connector: str = ""
    raised: bool = False
    waited: bool = False
    undiscovered: bool = False
    here_only: bool = False
    opted_out: Mapping[Ability, str] = field(default_factory=dict)

    @property
    def origin(self) -> str | None:
        """What failures of one cause share: the kind and the place of an unexpected error, or rows that are not found.

        None: the failure has a cause of its own.
        """
        if self.undiscovered:
            return "undiscovered"
        if not self.raised:
            return None
        frames = [line for line in self.text.splitlines() if line.startswith("  File ")]
        return f"{self.text.partition(':')[0]}{''.join(frames[-1:])}"

    @property
    def fails(self) -> bool:
        """Whether it keeps the connector from conforming."""
        return not self.status.good

    @property
    def look_at(self) -> tuple[str, ...]:
        """The hints for a failure, most likely first."""
        if self.undiscovered:
            return "discover(): it must look again each time", "extents(): it must ask for the present ends each time"
        return ("where this error is raised, which the rule does not expect",) if self.raised else self.rule.look_at

    def explained(self) -> str:
        """Return a full explanation of a failure."""
        parts = [f"{self.rule.id} {self.rule.title}: {self.status.value}", self.text]
        if self.status is Status.STALE:
            return "\n\n".join(parts)
        if self.story:
            parts.append("What was done:\n" + "\n".join(f"  {n}. {step}" for n, step in enumerate(self.story, 1)))
        if not self.status.good:
            hints = "".join(f"\n  - {hint}" for hint in self.look_at)
            parts.append(f"Look at:{hints}")
            parts.append(f"The rule: {self.rule.purpose}")
            parts.append(f"To check it alone: --rule {self.rule.id}, or check_connector(..., only=[{self.rule.id!r}])")
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Report:
    """The verdicts about a connector."""

    connector: str
    verdicts: tuple[Verdict, ...]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def opted_out(self) -> Mapping[Ability, str]:
        """The abilities that the connector opts out of."""
        return next((verdict.opted_out for verdict in self.verdicts if verdict.opted_out), {})

    @property
    def counts(self) -> Counter[Status]:
        """The number of rules with each status."""
        return Counter(verdict.status for verdict in self.verdicts)

    @property
    def unchecked(self) -> list[Rule]:
        """The rules that were left out, by tier or by id."""
        checked = {verdict.rule.id for verdict in self.verdicts}
        return [rule for rule in all_rules() if rule.id not in checked]

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts that need attention."""
        return [verdict for verdict in self.verdicts if verdict.fails]

    @property
    def causes(self) -> list[list[Verdict]]:
        """The failures, those by one unexpected error together; first those that lead to the fault soonest.

        Rows that are not found come first, and then those about reading: all else builds on it.
        """
        causes: dict[str, list[Verdict]] = {}
        for verdict in sorted(self.failures, key=_distance_from_the_fault):
            causes.setdefault(verdict.origin or verdict.rule.id, []).append(verdict)
        return list(causes.values())

    @property
    def explanations(self) -> list[str]:
        """An explanation of each cause of failures."""
        return [_explained(first, others) for first, *others in self.causes]

    @property
    def conforms(self) -> bool:
        """Whether every rule that was checked holds, and one at least."""
        return not self.failures and bool(self.counts[Status.PASSED])

    @property
    def headline(self) -> str:
        """The report in one sentence."""
        if not self.conforms:
            verdict = "does not conform"
        else:
            verdict = "breaks no rule that was checked" if self.unchecked else "conforms"
        ends = [f"{self.counts[status]} {status.value}" for status in Status if self.counts[status]]
        if self.unchecked:
            ends.append(f"{len(self.unchecked)} not checked")
        return f"{self.connector} {verdict}: {', '.join(ends)}"

    def raise_for_failures(self) -> None:
        """Raise ConformanceError, with all failures explained, unless the connector conforms."""
        if self.conforms:
            return
        raise ConformanceError("\n\n".join([self.headline, *self.explanations]))


def _distance_from_the_fault(verdict: Verdict) -> tuple[bool, ...]:
    nearest = "SPLIT" if verdict.undiscovered else "READ"
    return not verdict.undiscovered, verdict.rule.area != nearest


def _explained(first: Verdict, others: list[Verdict]) -> str:
    """Return the explanation of the first failure of a cause, and name the others."""
    if not others:
        return first.explained()
    rules = ", ".join(verdict.rule.id for verdict in others)
    return f"{first.explained()}\n\nThe same cause breaks {len(others)} more: {rules}"


def in_order(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return verdicts by area and number of their rules."""
    return tuple(sorted(verdicts, key=lambda verdict: verdict.rule.order))


def notes(report: Report) -> list[str]:
    """Return a line for each rule that does not simply hold, each reason to skip rules, and each missing ability."""
    lines = []
    for verdict in report:
        if verdict.status is Status.EXEMPT:
            lines.append(f"exempt: {verdict.rule.id} {verdict.rule.title}: {verdict.text.splitlines()[0]}")
        elif not verdict.status.good:
            lines.append(f"{verdict.status.value}: {verdict.rule.id} {verdict.rule.title}")
    here: dict[str, list[str]] = {}
    for verdict in report:
        if verdict.here_only:
            here.setdefault(verdict.text, []).append(verdict.rule.id)
    lines += [f"skipped here: {', '.join(rules)}: {why}" for why, rules in here.items()]
    return lines + [f"without {ability.name}: {why}" for ability, why in report.opted_out.items()]
