"""Makes up lives of a query with Hypothesis, and shrinks one that goes wrong to its shortest form."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.scenario import IDLE_S, Scenario

_MOST_LIVES = 100
_FEWEST_LIVES = 5
_STEPS = 25
_SLOW_S = 0.5  # of a life; a longer one is not shrunk, which would take minutes
_MOST_SPLITS = 5

_Step: TypeAlias = Sequence[Any]
"""A method of Scenario, and its arguments; those about a split have any number instead of the split's."""

_OF_A_SPLIT = ("finish", "trim", "remove")
_GAPS = st.sampled_from([0, 1, 1, 4, 5, 9, 10, 11, 40, 900])
_ROWS = st.lists(_GAPS, min_size=1, max_size=5)
_ROWS_IN_DISORDER = st.lists(st.sampled_from([-6, -3, -1, 0, 4]), min_size=1, max_size=4)
_WHICH = st.integers(0, 4)


def _step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[_Step]:
    return st.tuples(st.just(name), *arguments)


_KINDS: Sequence[tuple[set[Ability], st.SearchStrategy[_Step]]] = (
    (set(), _step("batch", st.sampled_from([None, None, 1, 3]))),
    (set(), _step("batches")),
    (set(), _step("wait", st.sampled_from([1, int(IDLE_S) // 2, int(IDLE_S) + 1]))),
    (set(), _step("crash")),
    (set(), _step("crash_before_the_commit")),
    (set(), _step("available_now")),
    (set(), _step("resize", st.sampled_from([1, 2, 7]))),
    ({Ability.MANY_SPLITS}, _step("new_split", st.sampled_from([0, 0, 5, 60, 1000]), st.lists(_GAPS, max_size=4))),
    ({Ability.GROWING_SPLITS, Ability.NEW_SPLITS}, _step("append", _WHICH, _ROWS)),
    ({Ability.DISORDER}, _step("append", _WHICH, _ROWS_IN_DISORDER)),
    ({Ability.FINITE_SPLITS}, _step("finish", _WHICH)),
    ({Ability.RETENTION}, _step("trim", _WHICH, st.integers(1, 4))),
    ({Ability.REMOVABLE_SPLITS}, _step("remove", _WHICH)),
)
"""Steps, and abilities of which each needs one."""

_FIRST_LIFE: Sequence[_Step] = (
    ("new_split", 100, [1, 2]),
    ("batch", 2),
    ("crash_before_the_commit",),
    ("crash",),
    ("available_now",),
)


def live_many_lives(lab: Lab, drifts_s: tuple[int | None, ...], seconds: float) -> None:
    """Make up lives for a number of seconds, and report their events to the lab.

    drifts_s: the max drifts that are tried.

    Raises ConformanceError for the first life that goes wrong, shrunk if that is quick, with the code that repeats it.
    """
    failures: list[str] = []
    live = partial(_live, lab, failures)
    first = partial(_seconds_of, partial(live, drifts_s[0], 0, [0, 1, 2], _FIRST_LIFE))
    life_s = first()
    if life_s > _SLOW_S:
        life_s = min(life_s, first())  # the first one may have imported modules for all
    lives = max(_FEWEST_LIVES, min(_MOST_LIVES, int(seconds / life_s)))
    lab.tell(f"live up to {lives} lives of up to {_STEPS} steps")
    possible = [step for needs, step in _KINDS if not needs or any(map(lab.can, needs))]
    steps = st.one_of(st.none(), *possible)  # a step shrinks to none
    phases = [Phase.generate] if life_s > _SLOW_S else [Phase.generate, Phase.shrink]

    @settings(
        max_examples=lives,
        deadline=None,
        database=None,
        derandomize=True,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(
        st.sampled_from(drifts_s),
        st.sampled_from([0, 0, 6] if lab.can(Ability.DISORDER) else [0]),
        _ROWS,
        st.lists(steps, min_size=_STEPS, max_size=_STEPS),
    )
    def lives_of_all_kinds(drift_s: int | None, disorder_s: int, rows: list[int], steps: list[_Step | None]) -> None:
        live(drift_s, disorder_s, rows, steps)

    try:
        lives_of_all_kinds()
    except Flaky:
        if not failures:
            raise
        raise ConformanceError(
            f"{failures[-1]}\n\nLived again, that life went otherwise: what the connector does depends on more "
            "than what happens to it, such as the time that an answer takes."
        ) from None


def _live(
    lab: Lab,
    failures: list[str],
    drift_s: int | None,
    disorder_s: int,
    rows: list[int],
    steps: Sequence[_Step | None],
) -> None:
    """Live one life, note its failure, and report its events to the lab."""
    scenario = Scenario.of(lab, max_drift_s=drift_s, out_of_orderness_s=disorder_s)
    try:
        scenario.new_split(*rows)
        for step in steps:
            if step is not None:
                _do(scenario, *step)
        scenario.end()
    except ConformanceError as failure:
        failures.append(str(failure))
        raise
    finally:
        lab.seen |= scenario.happened
        with suppress(Exception):  # the first failure counts
            scenario.lab.close()


def _do(scenario: Scenario, name: str, *arguments: Any) -> None:
    """Do a step, unless no split is there for it, or none may come."""
    lab, there = scenario.lab, scenario.there
    if name == "batches":
        for _ in range(3):
            scenario.batch()
    elif name == "new_split":
        may_come = lab.can(Ability.NEW_SPLITS if scenario.started else Ability.MANY_SPLITS)
        if may_come and len(lab.splits) < _MOST_SPLITS:
            begin, rows = arguments
            scenario.new_split(*([begin, *rows] if rows else []))
    elif name == "append":
        which, rows = arguments
        if growing := [split for split in there if split not in scenario.finished]:
            scenario.append(growing[which % len(growing)], *rows)
    elif name in _OF_A_SPLIT:
        which, *rest = arguments
        if there:
            getattr(scenario, name)(there[which % len(there)], *rest)
    else:
        getattr(scenario, name)(*arguments)


def _seconds_of(life: Callable[[], None]) -> float:
    """Return twice the seconds of a life: others are longer."""
    begun = time.monotonic()
    life()
    return 2 * (time.monotonic() - begun)
