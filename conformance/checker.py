"""Runs rules against a connector, each in a lab of its own and with a deadline, and sees that something was tested."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tidegate.conformance.errors import ConformanceError, NotExercisedError, SkippedError
from tidegate.conformance.explain import told
from tidegate.conformance.harness import HarnessFactory, name_of
from tidegate.conformance.lab import PATIENCE_S, Lab
from tidegate.conformance.opting_out import OptedOut, opted_out
from tidegate.conformance.planning import OpenRun, open_coordinator
from tidegate.conformance.rules import Rule, Tier, rule_named, rules_of
from tidegate.conformance.verdicts import Report, Status, Verdict
from tidegate.errors import OptionError

__all__ = ["check_connector", "checked_exemptions", "enforce", "judge"]

_DEADLINES_S = {Tier.CONTRACT: 60.0, Tier.STATEFUL: 300.0, Tier.SPARK: 240.0, Tier.FAULTS: 240.0}


def check_connector(
    harness: HarnessFactory,
    *,
    tiers: Iterable[Tier] = Tier,
    only: Iterable[str] = (),
    exempt: Mapping[str, str] | None = None,
    on_verdict: Callable[[Verdict], object] = lambda _: None,
) -> Report:
    """Check a connector by the rules of some tiers, and return what became of each.

    harness: makes a harness; called for every rule, a stateful one many times.
    only: ids of the rules to check; none: all of the tiers.
    exempt: rules that are known to fail, by id, with the reason; one that passes is a failure then.
    on_verdict: told each verdict as soon as it is there.

    Raises OptionError for a rule that there is not, an exemption without a reason, and when there is
    nothing to check.  What the connector does wrong raises nothing: see ``Report.raise_for_failures``.
    """
    exempt = checked_exemptions(exempt or {})
    wanted = {rule_named(each).id for each in only}
    rules = [each for each in rules_of(tiers) if not wanted or each.id in wanted]
    if not rules:
        raise OptionError("there is nothing to check: no such rule is of these tiers")
    verdicts = []
    for each in rules:
        verdict = judge(each, harness, exempt=exempt.get(each.id))
        on_verdict(verdict)
        verdicts.append(verdict)
    return _report(harness, verdicts)


def checked_exemptions(exempt: Mapping[str, str]) -> dict[str, str]:
    """Return the same.  Raises OptionError for a rule that there is not, and for a reason that is none."""
    for name, reason in exempt.items():
        if not reason.strip():
            raise OptionError(f"{rule_named(name).id} is exempt without a reason")
        rule_named(name)
    return dict(exempt)


def enforce(checked: Rule, harness: HarnessFactory) -> None:
    """Check one rule.  Raises ConformanceError when it is broken; returns when it holds, or is skipped."""
    verdict = judge(checked, harness)
    if verdict.status is Status.NOT_EXERCISED:
        raise NotExercisedError(verdict.explained())
    if not verdict.status.good:
        raise ConformanceError(verdict.explained())


def judge(
    checked: Rule,
    harness: HarnessFactory,
    *,
    exempt: str | None = None,
    open_run: OpenRun = open_coordinator,
    patience_s: float = PATIENCE_S,
    deadline_s: float | None = None,
) -> Verdict:
    """Test one rule in a thread of its own, and return what became of it.

    exempt: why it is known to fail; None: it is not.
    open_run, patience_s: see Lab.
    deadline_s: after which the thread is left alone, and the rule is HUNG; None: that of its tier.
    """
    attempt = _Attempt(checked, lambda: Lab(harness, open_run, patience_s))
    verdict = _tested(attempt, deadline_s or _DEADLINES_S[checked.tier])
    verdict = replace(verdict, connector=verdict.connector or _name_of(harness))
    if exempt is None or verdict.status is Status.SKIPPED:
        return verdict
    if verdict.status is Status.PASSED:
        text = f"it is exempt because {exempt!r}, but it holds: take the exemption away"
        return replace(verdict, status=Status.STALE, text=text)
    return replace(verdict, status=Status.EXEMPT, text=f"{exempt}\n{verdict.text}")


def _tested(attempt: _Attempt, deadline_s: float) -> Verdict:
    begun = time.monotonic()
    attempt.start()
    attempt.join(deadline_s)
    seconds = time.monotonic() - begun
    lab = attempt.lab
    if attempt.is_alive():
        status, text = Status.HUNG, f"it did not end within {deadline_s:g} s\n{_stacks(attempt)}"
    elif isinstance(attempt.error, KeyboardInterrupt):
        raise attempt.error
    elif isinstance(attempt.error, SkippedError):
        status, text = Status.SKIPPED, str(attempt.error)
    elif attempt.error is not None:
        status, text = Status.FAILED, told(attempt.error, __file__)
    elif unseen := [what for what in attempt.rule.witness if lab is None or what not in lab.seen]:
        status, text = Status.NOT_EXERCISED, f"nothing was tested: {' and '.join(unseen)} was never observed"
    else:
        status, text = Status.PASSED, ""
    raised = status is Status.FAILED and not isinstance(attempt.error, ConformanceError)
    verdict = Verdict(attempt.rule, status, text, seconds=seconds, raised=raised)
    return verdict if lab is None else replace(verdict, story=tuple(lab.story), connector=name_of(lab.harness))


class _Attempt(threading.Thread):
    """One rule tested once.

    lab: None as long as its harness is not made.
    error: what ended the test, or, when that holds or is skipped, the closing of the lab; None: nothing.
    """

    def __init__(self, checked: Rule, open_lab: Callable[[], Lab]) -> None:
        super().__init__(name=f"conformance-{checked.id}", daemon=True)
        self.rule, self._open_lab = checked, open_lab
        self.lab: Lab | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.lab = self._open_lab()
        except BaseException as error:  # noqa: BLE001 - whatever a connector raises is told
            self.error = error
            return
        for step in (self._test, self.lab.close):
            try:
                step()
            except BaseException as error:  # noqa: BLE001, PERF203 - as above
                if self.error is None or isinstance(self.error, SkippedError):
                    self.error = error

    def _test(self) -> None:
        assert self.lab is not None  # noqa: S101 - run() has just set it
        self.lab.skip_without(self.rule.needs)
        self.rule.test(self.lab)


def _report(harness: HarnessFactory, verdicts: list[Verdict]) -> Report:
    try:
        found = opted_out(harness)
    except Exception:  # noqa: BLE001 - a harness that cannot be made is what every verdict tells
        found = OptedOut(verdicts[0].connector)
    return Report(found.connector, tuple(verdicts), found.abilities, found.stale)


def _name_of(harness: HarnessFactory) -> str:
    while isinstance(harness, partial):
        harness = harness.func
    return getattr(harness, "__name__", type(harness).__name__)


def _stacks(attempt: threading.Thread) -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    with suppress(RuntimeError):
        frames = sys._current_frames()  # noqa: SLF001 - documented for this very use
        for ident in sorted(frames, key=lambda each: each != attempt.ident):
            stack = "".join(traceback.format_stack(frames[ident]))
            found.append(f"thread {names.get(ident, ident)}:\n{stack}")
    return "\n".join(found)
