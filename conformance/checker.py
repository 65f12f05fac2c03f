"""Runs rules against a connector, each in its own lab and with a deadline, and makes sure that something was tested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from tidegate.conformance.errors import (
    ConformanceError,
    NotApplicableError,
    SkippedError,
    UndiscoveredError,
    WaitedError,
)
from tidegate.conformance.harness import HarnessFactory, name_of
from tidegate.conformance.lab import trial as trials
from tidegate.conformance.lab.explain import told
from tidegate.conformance.lab.lab import PATIENCE_S, Lab
from tidegate.conformance.lab.trial import Trial
from tidegate.conformance.rules import Rule, Tier, rule_named, rules_of
from tidegate.conformance.verdicts import Report, Status, Verdict, in_order
from tidegate.errors import OptionError

SHORT_PATIENCE_S = PATIENCE_S / 10
"""How long a rule waits for an event after another rule has waited in vain: most wait for the same."""

_DEADLINES_S = {Tier.CONTRACT: 60.0, Tier.STATEFUL: 300.0, Tier.SPARK: 240.0, Tier.FAULTS: 240.0}


def check_connector(
    harness: HarnessFactory,
    *,
    tiers: Iterable[Tier] = Tier,
    only: Iterable[str] = (),
    exempt: Mapping[str, str] | None = None,
    on_verdict: Callable[[Verdict], object] = lambda _: None,
) -> Report:
    """Check a connector by the rules of some tiers, and return the report.

    harness: creates a harness; called for every rule, and many times for a stateful one.
    only: ids of the rules to check; none: all of the tiers.
    exempt: rules that are known to fail, by id, with the reason; one that passes is a failure then.
    on_verdict: called with each verdict at once; those of quick rules come first.

    Raises OptionError for an unknown rule, for an exemption without a reason, and if there is nothing to check.
    Failures of the connector raise nothing: see ``Report.raise_for_failures``.
    """
    exempt = checked_exemptions(exempt or {})
    verdicts: list[Verdict] = []
    patience_s = PATIENCE_S
    for rule in rules_of(tiers, only):
        verdict = judge(rule, harness, exempt=exempt.get(rule.id), patience_s=patience_s)
        patience_s = SHORT_PATIENCE_S if verdict.waited else patience_s
        on_verdict(verdict)
        verdicts.append(verdict)
    return Report(verdicts[-1].connector, in_order(verdicts))


def checked_exemptions(exempt: Mapping[str, str]) -> dict[str, str]:
    """Return the exemptions.  Raises OptionError for an unknown rule, and for an empty reason."""
    for name, reason in exempt.items():
        if not reason.strip():
            raise OptionError(f"{rule_named(name).id} is exempt without a reason")
        rule_named(name)
    return dict(exempt)


def judge(
    checked: Rule,
    harness: HarnessFactory,
    *,
    exempt: str | None = None,
    patience_s: float = PATIENCE_S,
    deadline_s: float | None = None,
) -> Verdict:
    """Test one rule in a thread of its own, and return the verdict.

    exempt: why it is known to fail; None: it is not exempt.
    deadline_s: after it the thread is abandoned, and the rule is HUNG; None: the deadline of its tier.
    """
    trial = Trial(checked.id, lambda: Lab(harness, patience_s), partial(_test, checked))
    verdict = _tested(checked, trial, deadline_s or _DEADLINES_S[checked.tier])
    verdict = replace(verdict, connector=verdict.connector or _name_of(harness))
    if exempt is None or verdict.here_only:
        return verdict
    if verdict.status in {Status.PASSED, Status.SKIPPED}:
        outcome = "it holds" if verdict.status is Status.PASSED else f"it does not apply, for {verdict.text}"
        text = f"it is exempt because {exempt!r}, but {outcome}: remove the exemption"
        return replace(verdict, status=Status.STALE, text=text)
    return replace(verdict, status=Status.EXEMPT, text=f"{exempt}\n{verdict.text}")


def _test(checked: Rule, lab: Lab) -> None:
    lab.skip_without(checked.needs)
    checked.test(lab)


def _tested(checked: Rule, trial: Trial, deadline_s: float) -> Verdict:
    hung = trial.hung(deadline_s)
    seconds = deadline_s if hung is not None else trial.seconds
    lab = trial.lab
    if hung is not None:
        status, text = Status.HUNG, hung
    elif isinstance(trial.error, KeyboardInterrupt):
        raise trial.error
    elif isinstance(trial.error, SkippedError):
        status, text = Status.SKIPPED, str(trial.error)
    elif trial.error is not None:
        status, text = Status.FAILED, told(trial.error, __file__, trials.__file__)
    elif unseen := [what for what in checked.witness if lab is None or what not in lab.seen]:
        status, text = Status.NOT_EXERCISED, f"nothing was tested: {' and '.join(unseen)} was never observed"
    else:
        status, text = Status.PASSED, ""
    raised = status is Status.FAILED and not isinstance(trial.error, ConformanceError)
    here_only = status is Status.SKIPPED and not isinstance(trial.error, NotApplicableError)
    waited, undiscovered = isinstance(trial.error, WaitedError), isinstance(trial.error, UndiscoveredError)
    verdict = Verdict(checked, status, text, (), seconds, "", raised, waited, undiscovered, here_only=here_only)
    if lab is None:
        return verdict
    return replace(
        verdict,
        story=tuple(lab.story),
        connector=name_of(lab.harness),
        opted_out=lab.harness.abilities.opted_out,
    )


def _name_of(harness: HarnessFactory) -> str:
    while isinstance(harness, partial):
        harness = harness.func
    return getattr(harness, "__name__", type(harness).__name__)
