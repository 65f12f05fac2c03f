"""Runs rules against a connector, each in a lab of its own and with a deadline, and sees that something was tested."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from tidegate.conformance.abilities import Abilities
from tidegate.conformance.errors import ConformanceError, NotExercisedError, SkippedError
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.lab import PATIENCE_S, Lab
from tidegate.conformance.opting_out import stale_opt_outs
from tidegate.conformance.planning import OpenRun, open_coordinator
from tidegate.conformance.rules import Rule, Tier, rules_of
from tidegate.conformance.verdicts import Report, Status, Verdict
from tidegate.errors import OptionError, did_you_mean

__all__ = ["check_connector", "enforce", "judge"]

_DEADLINES_S = {Tier.CONTRACT: 60.0, Tier.STATEFUL: 300.0, Tier.SPARK: 180.0, Tier.FAULTS: 180.0}


def check_connector(
    harness: HarnessFactory,
    *,
    tiers: Iterable[Tier] = Tier,
    exempt: Mapping[str, str] | None = None,
    on_verdict: Callable[[Verdict], object] = lambda _: None,
) -> Report:
    """Check a connector by the rules of some tiers, and return what became of each.

    harness: makes a harness; called for every rule, a stateful one many times.
    exempt: rules that are known to fail, by id, with the reason; one that passes is a failure then.
    on_verdict: told each verdict as soon as it is there.

    Raises OptionError for an exemption of a rule that there is not, or without a reason.  What the
    connector does wrong raises nothing: see ``Report.raise_for_failures``.
    """
    exempt = dict(exempt or {})
    rules = rules_of(tiers)
    _refuse_unknown(exempt)
    verdicts = []
    for each in rules:
        verdict = judge(each, harness, exempt=exempt.get(each.id))
        on_verdict(verdict)
        verdicts.append(verdict)
    name, abilities = _described(harness)
    return Report(name, tuple(verdicts), dict(abilities.opted_out), stale_opt_outs(harness))


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
    name, abilities = _described(harness)
    for ability in sorted(checked.needs, key=lambda each: each.name):
        why = abilities.lacking(ability)
        if why is not None:
            return Verdict(checked, Status.SKIPPED, f"{name} has no {ability.name}: it {why}")
    attempt = _Attempt(checked, lambda: Lab(harness, open_run, patience_s))
    verdict = _tested(attempt, deadline_s or _DEADLINES_S[checked.tier])
    if exempt is None or verdict.status is Status.SKIPPED:
        return verdict
    if verdict.status is Status.PASSED:
        text = f"it is exempt because {exempt!r}, but it holds: take the exemption away"
        return Verdict(checked, Status.STALE, text, verdict.story, verdict.seconds)
    return Verdict(checked, Status.EXEMPT, f"{exempt}\n{verdict.text}", verdict.story, verdict.seconds)


def _tested(attempt: _Attempt, deadline_s: float) -> Verdict:
    checked = attempt.rule
    begun = time.monotonic()
    attempt.start()
    attempt.join(deadline_s)
    seconds = time.monotonic() - begun
    story = tuple(attempt.lab.story) if attempt.lab is not None else ()
    if attempt.is_alive():
        text = f"it did not end within {deadline_s:g} s\n{_stacks()}"
        return Verdict(checked, Status.HUNG, text, story, seconds)
    if attempt.skipped is not None:
        return Verdict(checked, Status.SKIPPED, attempt.skipped, story, seconds)
    if attempt.wrong is not None:
        return Verdict(checked, Status.FAILED, attempt.wrong, story, seconds)
    unseen = [what for what in checked.witness if attempt.lab is None or what not in attempt.lab.seen]
    if unseen:
        text = f"nothing was tested: {' and '.join(unseen)} was never observed"
        return Verdict(checked, Status.NOT_EXERCISED, text, story, seconds)
    return Verdict(checked, Status.PASSED, "", story, seconds)


class _Attempt(threading.Thread):
    """One rule tested once.

    wrong: what is wrong; None: nothing.
    skipped: why it could not be tested; None: it was.
    """

    def __init__(self, checked: Rule, open_lab: Callable[[], Lab]) -> None:
        super().__init__(name=f"conformance-{checked.id}", daemon=True)
        self.rule, self._open_lab = checked, open_lab
        self.lab: Lab | None = None
        self.wrong: str | None = None
        self.skipped: str | None = None

    def run(self) -> None:
        try:
            self.lab = self._open_lab()
            try:
                self.rule.test(self.lab)
            finally:
                self.lab.close()
        except SkippedError as why:
            self.skipped = str(why)
        except ConformanceError as wrong:
            self.wrong = str(wrong)
        except BaseException as error:  # noqa: BLE001 - whatever a connector raises is told
            # What the rule did not expect comes from the connector, so its own stack is what helps.
            self.wrong = f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-6:])}"


def _described(harness: HarnessFactory) -> tuple[str, Abilities]:
    made = harness()
    try:
        return type(made).__name__, made.abilities
    finally:
        made.close()


def _refuse_unknown(exempt: Mapping[str, str]) -> None:
    known = [each.id for each in rules_of(Tier)]
    for name, reason in exempt.items():
        if name not in known:
            raise OptionError(f"there is no rule {name!r}{did_you_mean(name, known)}")
        if not reason.strip():
            raise OptionError(f"{name} is exempt without a reason")


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    with suppress(RuntimeError):
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 - documented for this very use
            found.append(f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(found)
