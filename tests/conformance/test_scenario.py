"""Lives of a query, step by step: any failure is reported with the code that repeats the life."""

import re
import textwrap

import pytest

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness, MemoryReader
from tests.conformance.mutants.mutant import sinful
from tests.conformance.references import WITHOUT_INDEX
from tidegate.conformance import machine
from tidegate.conformance.checker import judge
from tidegate.conformance.checks import align
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab import query
from tidegate.conformance.rules import rule_named
from tidegate.conformance.scenario import Scenario
from tidegate.conformance.verdicts import Status
from tidegate.sources.bridge import coordinator_of


class CannotLookAgain(MemoryEnumerator):
    def __init__(self, source, state):
        super().__init__(source, state)
        self._restarted = state is not None

    def extents(self, splits):
        if self._restarted:
            raise KeyError("split-7")
        return super().extents(splits)


class Ticks:
    """A planner that always has a next batch, though without rows."""

    def __init__(self, *arguments, **clocks):
        self._run, self._ticks = coordinator_of(*arguments, **clocks), 0

    def __getattr__(self, name):
        return getattr(self._run, name)

    def latest_offset(self, start, *arguments):
        self._ticks += 1
        return {**self._run.latest_offset(_without_tick(start), *arguments), "tick": self._ticks}

    def tasks(self, start, end):
        return self._run.tasks(_without_tick(start), _without_tick(end))


def _without_tick(offset):
    return {name: value for name, value in offset.items() if name != "tick"}


@pytest.mark.parametrize("kind", WITHOUT_INDEX)
def test_without_an_index_the_last_row_may_stand_for_the_greatest_time(kind):
    scenario = Scenario(WITHOUT_INDEX[kind], max_drift_s=10, out_of_orderness_s=6)
    scenario.new_split(0)
    scenario.append(0, -6)
    scenario.end()


@pytest.mark.parametrize("kind", WITHOUT_INDEX)
def test_each_kind_of_connector_that_the_page_speaks_of_keeps_aligned_in_random_lives(kind, monkeypatch):
    monkeypatch.setattr(align, "_SECONDS", 0)
    verdict = judge(rule_named("WHOLE-1"), WITHOUT_INDEX[kind])
    assert verdict.status is Status.PASSED, verdict.explained()


def test_a_harness_is_closed_though_its_source_cannot_be_made():
    closed = []

    class Harness(MemoryHarness):
        def source(self, options):
            raise ValueError("no such option")

        def close(self):
            closed.append(self)
            super().close()

    with pytest.raises(ValueError, match="no such option"):
        Scenario(Harness)
    assert len(closed) == 1


def test_an_error_of_any_kind_is_reported_with_its_stack_and_with_code_that_raises_it_again():
    harness = sinful(enumerator=CannotLookAgain)
    verdict = judge(rule_named("WHOLE-1"), harness)
    assert verdict.status is Status.FAILED
    assert verdict.text.startswith("KeyError: 'split-7'\n")
    assert "in extents" in verdict.text
    _, _, pasted = verdict.text.partition("To see it again:\n\n")
    with pytest.raises(ConformanceError, match="KeyError: 'split-7'"):
        exec(textwrap.dedent(pasted), {harness.__name__: harness})  # noqa: S102 - people paste this code, too


def test_a_harness_that_fails_to_close_does_not_hide_what_went_wrong_first():
    class FailsToClose(sinful(enumerator=CannotLookAgain)):
        def close(self):
            super().close()
            raise RuntimeError("a lock is still held")

    verdict = judge(rule_named("WHOLE-1"), FailsToClose)
    assert verdict.text.startswith("KeyError: 'split-7'\n")
    scenario = Scenario(FailsToClose)
    scenario.new_split(0)
    scenario.batch()
    scenario.crash()
    with pytest.raises(ConformanceError, match="KeyError: 'split-7'"), scenario:
        scenario.batch()
    with pytest.raises(RuntimeError, match="a lock is still held"):
        Scenario(FailsToClose).end()


@pytest.mark.parametrize("last", ["available_now", "end"])
def test_batches_that_never_end_are_a_failure(last, monkeypatch):
    monkeypatch.setattr(query, "coordinator_of", Ticks)
    with Scenario(MemoryHarness) as scenario:
        scenario.new_split(0, 1)
        with pytest.raises(ConformanceError, match="makes one batch after the other, 1,000 by now"):
            getattr(scenario, last)()


def test_a_life_that_goes_wrong_only_once_is_reported(monkeypatch):
    monkeypatch.setattr(machine, "_FEWEST_LIVES", 100)  # a slow machine runs fewer lives, and reads less

    class LosesOneRowOnce(MemoryReader):
        reads = 0

        def read(self, task):
            LosesOneRowOnce.reads += 1
            lost = LosesOneRowOnce.reads == 150
            for batch in super().read(task):
                yield batch.slice(1) if lost else batch

    verdict = judge(rule_named("WHOLE-1"), sinful(reader=LosesOneRowOnce))
    assert verdict.status is Status.FAILED
    assert re.search(r"missing|lacks|passes \d#\d+|not delivered", verdict.text)
    assert "To see it again:" in verdict.text
    assert "Lived again, that life went otherwise" in verdict.text


def test_a_split_that_comes_within_the_out_of_orderness_of_the_watermark_may_have_late_rows():
    scenario = Scenario(MemoryHarness, out_of_orderness_s=6)
    scenario.new_split(0)
    scenario.batch()
    scenario.new_split()
    scenario.append(1, -6)
    scenario.batch()
    scenario.append(1, -6)
    scenario.end()


@pytest.mark.parametrize("limit", [1, 2])
def test_a_late_split_that_has_not_caught_up_does_not_hold_the_watermark(limit):
    scenario = Scenario(MemoryHarness, max_drift_s=10)
    scenario.new_split(901)
    scenario.new_split(900)
    scenario.batch()
    scenario.remove(1)
    scenario.new_split(0, 0, 900)
    scenario.batch(limit)  # reads the split in part, and the watermark passes its last row
    scenario.end()
