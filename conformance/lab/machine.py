"""Makes up lives of a query with Hypothesis, and shrinks one that goes wrong to its shortest form."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tidegate.conformance.abilities import Abilities, Ability
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.planning import OpenRun
from tidegate.conformance.scenario import IDLE_S, Scenario

__all__ = ["live_many_lives"]

_MOST_LIVES = 100
_FEWEST_LIVES = 5
_STEPS = 25
_SLOW_S = 0.5  # of a life; a longer one is not shrunk, which would take minutes
_GAPS = st.sampled_from([0, 1, 1, 4, 5, 9, 10, 11, 40, 900])
_ROWS = st.lists(_GAPS, min_size=1, max_size=5)
_MOST_SPLITS = 5


@dataclass(frozen=True)
class _Terms:
    """The arguments of a machine, because Hypothesis makes its instances without any."""

    begin: Callable[..., Scenario]
    abilities: Abilities
    drifts_s: tuple[int | None, ...]
    happened: set[str]
    failures: list[str] = field(default_factory=list)


class _Life(RuleBasedStateMachine):
    """One life; each rule is a step of the scenario."""

    terms: _Terms
    scenario: Scenario

    def __init__(self) -> None:
        super().__init__()
        self.finished: set[int] = set()
        self.gone: set[int] = set()

    def can(self, ability: Ability) -> bool:
        return ability in self.terms.abilities

    def pick(self, which: int) -> int | None:
        there = [s.number for s in self.scenario.lab.splits if s.number not in self.gone]
        return there[which % len(there)] if there else None

    @initialize(data=st.data(), rows=_ROWS)
    def begin(self, data: st.DataObject, rows: list[int]) -> None:
        disorder_s = data.draw(st.sampled_from([0, 0, 6])) if self.can(Ability.DISORDER) else 0
        drift_s = data.draw(st.sampled_from(self.terms.drifts_s))
        self.scenario = self.terms.begin(max_drift_s=drift_s, out_of_orderness_s=disorder_s)
        self.scenario.new_split(*rows)

    @precondition(lambda self: self.can(Ability.MANY_SPLITS) and len(self.scenario.lab.splits) < _MOST_SPLITS)
    @rule(begin=st.sampled_from([0, 0, 5, 60, 1000]), rows=st.lists(_GAPS, max_size=4))
    def new_split(self, begin: int, rows: list[int]) -> None:
        if self.scenario.started and not self.can(Ability.NEW_SPLITS):
            return
        self.scenario.new_split(*([begin, *rows] if rows else []))

    @precondition(lambda self: self.can(Ability.GROWING_SPLITS) or self.can(Ability.NEW_SPLITS))
    @rule(which=st.integers(0, 4), rows=_ROWS)
    def append(self, which: int, rows: list[int]) -> None:
        split = self.pick(which)
        if split is not None and split not in self.finished:
            self.scenario.append(split, *rows)

    @precondition(lambda self: self.can(Ability.DISORDER))
    @rule(which=st.integers(0, 4), rows=st.lists(st.sampled_from([-6, -3, -1, 0, 4]), min_size=1, max_size=4))
    def append_out_of_order(self, which: int, rows: list[int]) -> None:
        self.append(which, rows)

    @precondition(lambda self: self.can(Ability.FINITE_SPLITS))
    @rule(which=st.integers(0, 4))
    def finish(self, which: int) -> None:
        split = self.pick(which)
        if split is not None and split not in self.finished:
            self.finished.add(split)
            self.scenario.finish(split)

    @precondition(lambda self: self.can(Ability.RETENTION))
    @rule(which=st.integers(0, 4), count=st.integers(1, 4))
    def trim(self, which: int, count: int) -> None:
        split = self.pick(which)
        if split is not None:
            there = self.scenario.lab.splits[split]
            self.scenario.trim(split, min(len(there.rows), there.trimmed + count))

    @precondition(lambda self: self.can(Ability.REMOVABLE_SPLITS))
    @rule(which=st.integers(0, 4))
    def remove(self, which: int) -> None:
        split = self.pick(which)
        if split is not None:
            self.gone.add(split)
            self.scenario.remove(split)

    @rule(rows=st.sampled_from([None, None, 1, 3]))
    def batch(self, rows: int | None) -> None:
        self.scenario.batch(rows)

    @rule()
    def batches(self) -> None:
        for _ in range(3):
            self.scenario.batch()

    @rule(seconds=st.sampled_from([1, int(IDLE_S) // 2, int(IDLE_S) + 1]))
    def wait(self, seconds: int) -> None:
        self.scenario.wait(seconds)

    @rule()
    def crash(self) -> None:
        self.scenario.crash()

    @rule()
    def crash_before_the_commit(self) -> None:
        self.scenario.crash_before_the_commit()

    @rule()
    def available_now(self) -> None:
        self.scenario.available_now()

    @rule(cores=st.sampled_from([1, 2, 7]))
    def resize(self, cores: int) -> None:
        self.scenario.resize(cores)

    def teardown(self) -> None:
        if not hasattr(self, "scenario"):
            return
        try:
            if self.scenario.failure is None:
                self.scenario.end()
            else:
                with suppress(Exception):  # the first failure counts
                    self.scenario.lab.close()
        finally:
            if self.scenario.failure is not None:
                self.terms.failures.append(str(self.scenario.failure))
            self.terms.happened.update(self.scenario.happened)


def live_many_lives(lab: Lab, drifts_s: tuple[int | None, ...], seconds: float) -> None:
    """Make up lives for a number of seconds, and report their events to the lab.

    drifts_s: the max drifts that are tried.

    Raises ConformanceError for the first life that goes wrong, shrunk if that is quick, with the code that repeats it.
    """
    terms = _Terms(_beginner(lab.make, lab.open_run, lab.patience_s), lab.harness.abilities, drifts_s, lab.seen)
    life_s = _seconds_of_a_life(terms)
    if life_s > _SLOW_S:
        life_s = min(life_s, _seconds_of_a_life(terms))  # the first one may have imported modules for all
    lives = max(_FEWEST_LIVES, min(_MOST_LIVES, int(seconds / life_s)))
    lab.tell(f"live up to {lives} lives of up to {_STEPS} steps")
    phases = [Phase.generate] if life_s > _SLOW_S else [Phase.generate, Phase.shrink]
    life: Any = type("Life", (_Life,), {"terms": terms})
    try:
        run_state_machine_as_test(
            life,
            settings=settings(
                max_examples=lives,
                stateful_step_count=_STEPS,
                deadline=None,
                database=None,
                derandomize=True,
                phases=phases,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
                verbosity=Verbosity.quiet,
            ),
        )
    except Flaky:
        if not terms.failures:
            raise
        raise ConformanceError(
            f"{terms.failures[-1]}\n\nLived again, that life went otherwise: what the connector does depends on more "
            "than what happens to it, such as the time that an answer takes."
        ) from None


def _beginner(make: HarnessFactory, open_run: OpenRun, patience_s: float) -> Callable[..., Scenario]:
    return partial(Scenario, make, open_run=open_run, patience_s=patience_s)


def _seconds_of_a_life(terms: _Terms) -> float:
    """Live a fixed life with some of each step, and return its seconds."""
    begun = time.monotonic()
    with terms.begin(max_drift_s=terms.drifts_s[0]) as scenario:
        scenario.new_split(0, 1, 2)
        if Ability.MANY_SPLITS in terms.abilities:
            scenario.new_split(100, 1, 2)
        scenario.batch(2)
        scenario.crash_before_the_commit()
        scenario.crash()
        scenario.available_now()
        scenario.end()
    terms.happened.update(scenario.happened)
    return 2 * (time.monotonic() - begun)  # others are longer
