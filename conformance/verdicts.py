"""What became of each rule, and of a connector as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.conformance.abilities import Ability, OptOut
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.rules import Level, Rule

__all__ = ["Report", "Status", "Verdict"]


class Status(Enum):
    """What became of a rule."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"
    NOT_EXERCISED = "not exercised"
    EXEMPT = "exempt"
    STALE = "stale exemption"
    SKIPPED = "skipped"

    @property
    def good(self) -> bool:
        """Whether nobody need do anything about it."""
        return self in {Status.PASSED, Status.EXEMPT, Status.SKIPPED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one rule.

    text: why it is not PASSED; empty where it is.
    story: what was done, step by step, up to the end.
    seconds: that it took.
    """

    rule: Rule
    status: Status
    text: str = ""
    story: tuple[str, ...] = ()
    seconds: float = 0.0

    def explained(self) -> str:
        """Return all that helps to understand a failure."""
        parts = [f"{self.rule.id} {self.rule.title}: {self.status.value}", self.text]
        if self.story:
            parts.append("What was done:\n" + "\n".join(f"  {n}. {step}" for n, step in enumerate(self.story, 1)))
        if not self.status.good:
            parts.append("Look at:\n" + "\n".join(f"  - {hint}" for hint in self.rule.look_at))
            parts.append(f"The rule ({self.rule.level.name}): {self.rule.purpose}")
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Report:
    """What became of a connector.

    connector: the harness's name.
    opted_out: abilities that the connector goes without.
    stale: abilities that are opted out of, though the harness has what they need.
    """

    connector: str
    verdicts: tuple[Verdict, ...]
    opted_out: Mapping[Ability, OptOut] = field(default_factory=dict)
    stale: Mapping[Ability, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def counts(self) -> Counter[Status]:
        """How many rules came to which end."""
        return Counter(verdict.status for verdict in self.verdicts)

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts that somebody must do something about; MAY rules are not among them."""
        return [v for v in self.verdicts if not v.status.good and v.rule.level is not Level.MAY]

    @property
    def conforms(self) -> bool:
        """Whether every MUST and SHOULD holds, and no opting out is stale."""
        return not self.failures and not self.stale

    def raise_for_failures(self) -> None:
        """Raise ConformanceError, with every failure explained, unless the connector conforms."""
        if self.conforms:
            return
        stale = [f"{ability.name} is opted out of, but {why}" for ability, why in self.stale.items()]
        raise ConformanceError("\n\n".join([*stale, *(verdict.explained() for verdict in self.failures)]))
