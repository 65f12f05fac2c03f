"""Lives of a query: what a life may look like without being a failure, and how one that goes wrong is reported."""

import pytest

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness, MemoryReader
from tests.conformance.references import WITHOUT_LATEST, sinful
from tidegate.conformance.checker import Status, judge
from tidegate.conformance.checks import align
from tidegate.conformance.lab import query
from tidegate.conformance.lab.base import ConformanceError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.life import Life
from tidegate.conformance.rules import rule_named
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


@pytest.fixture
def lab():
    with Lab(MemoryHarness) as lab:
        yield lab


@pytest.mark.parametrize("kind", WITHOUT_LATEST)
def test_each_kind_of_connector_that_the_page_speaks_of_keeps_aligned_in_random_lives(kind, monkeypatch):
    monkeypatch.setattr(align, "_SECONDS", 0)
    verdict = judge(rule_named("WHOLE-1"), WITHOUT_LATEST[kind])
    assert verdict.status is Status.PASSED, verdict.explained()


@pytest.mark.parametrize("kind", WITHOUT_LATEST)
def test_without_latest_the_last_row_may_stand_for_the_greatest_time(kind):
    with Lab(WITHOUT_LATEST[kind]) as lab:
        life = Life(lab, drift_s=10, disorder_s=6)
        split, other = lab.split(), lab.split()
        life.append(split, [0])
        life.append(other, [-6])
        life.append(split, [-6])
        life.end()


def test_an_error_of_any_kind_is_reported_with_its_stack_and_the_steps_of_its_life():
    verdict = judge(rule_named("WHOLE-1"), sinful(enumerator=CannotLookAgain))
    assert verdict.status is Status.FAILED
    assert verdict.text.startswith("KeyError: 'split-7'\n")
    assert "in extents" in verdict.text
    assert verdict.story[0].startswith("source: ")
    assert "kill the planner" in verdict.story


def test_batches_that_never_end_are_a_failure(lab, monkeypatch):
    monkeypatch.setattr(query, "coordinator_of", Ticks)
    life = Life(lab, drift_s=None)
    life.append(lab.split(), [0, 1])
    with pytest.raises(ConformanceError, match="makes one batch after the other, 1,000 by now"):
        life.end()


def test_a_life_that_goes_wrong_only_once_is_reported(monkeypatch):
    monkeypatch.setattr(align, "_FEWEST_LIVES", 100)  # a slow machine lives fewer, and reads less

    class LosesOneRowOnce(MemoryReader):
        reads = 0

        def read(self, task):
            LosesOneRowOnce.reads += 1
            lost = LosesOneRowOnce.reads == 150
            for batch in super().read(task):
                yield batch.slice(1) if lost else batch

    verdict = judge(rule_named("WHOLE-1"), sinful(reader=LosesOneRowOnce))
    assert verdict.status is Status.FAILED


def test_a_split_that_comes_within_the_out_of_orderness_of_the_watermark_may_have_late_rows(lab):
    life = Life(lab, drift_s=None, disorder_s=6)
    life.append(lab.split(), [0])
    life.batch()
    life.query.clock.sleep(1)
    split = lab.split()
    life.append(split, [-6])
    life.batch()
    life.append(split, [-6])
    life.end()


@pytest.mark.parametrize("limit", [1, 2])
def test_a_late_split_that_has_not_caught_up_does_not_hold_the_watermark(lab, limit):
    life = Life(lab, drift_s=10)
    life.append(lab.split(), [901])
    life.append(lab.split(), [900])
    life.batch()
    life.query.clock.sleep(1)
    life.remove(lab.splits[1])
    life.append(lab.split(), [0, 0, 900])
    life.query.clock.sleep(1)
    life.batch(limit)  # reads the split in part, and the watermark passes its last row
    life.end()
