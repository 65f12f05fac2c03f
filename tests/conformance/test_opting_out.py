import threading

import pytest

from tests.conformance.memory.reference import MemoryHarness
from tests.conformance.small import SmallHarness
from tidegate.conformance.abilities import Abilities, Ability
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.opting_out import opted_out
from tidegate.errors import ConnectorError


class MemoryWithout(MemoryHarness):
    lacking: Ability

    @property
    def abilities(self):
        return Abilities().cannot(self.lacking, "so it is said")


@pytest.mark.parametrize(
    ("ability", "sentence"),
    [
        (Ability.FINITE_SPLITS, "FINITE_SPLITS is opted out of, but MemoryWriter has finish()"),
        (Ability.HOLES, "HOLES is opted out of, but MemoryWriter has leave_hole()"),
        (Ability.RETENTION, "RETENTION is opted out of, but MemoryWriter has trim()"),
        (Ability.REMOVABLE_SPLITS, "REMOVABLE_SPLITS is opted out of, but MemoryWriter has remove()"),
        (Ability.TIME_INDEX, "TIME_INDEX is opted out of, but MemoryEnumerator has lookup()"),
        (Ability.EVENT_TIME_COLUMN, "EVENT_TIME_COLUMN is opted out of, but event_time_column is set"),
        (Ability.START_AT_END, "START_AT_END is opted out of, but start_at_end is set"),
    ],
)
def test_what_is_there_cannot_be_opted_out_of(ability, sentence):
    class Without(MemoryWithout):
        lacking = ability

    assert opted_out(Without).stale == {ability: sentence}


def test_what_is_not_there_is_opted_out_of_rightly():
    opted = opted_out(SmallHarness)
    assert opted.connector == "small"
    assert [str(why) for why in opted.abilities.values()] == [
        "cannot: nothing leaves any",
        "does not yet: asked for by nobody",
    ]
    assert opted.stale == {}


def test_a_harness_that_can_make_only_one_split_is_asked_for_one():
    class OneTable(MemoryHarness):
        abilities = Abilities().cannot([Ability.MANY_SPLITS, Ability.FINITE_SPLITS, Ability.RETENTION], "one table")
        made = 0

        def create_split(self):
            self.made += 1
            assert self.made == 1, "there is one table only"
            return super().create_split()

    assert set(opted_out(OneTable).stale) == {Ability.FINITE_SPLITS, Ability.RETENTION}


def test_the_harness_is_closed_also_when_it_fails():
    closed = []

    class Harness(SmallHarness):
        abilities = Abilities().cannot(Ability.TIME_INDEX, "it has none")

        def close(self):
            closed.append(self)

    with pytest.raises(ConnectorError, match="nothing to read from"):
        opted_out(Harness)
    assert len(closed) == 1


def test_a_harness_that_hangs_is_reported_and_closed(hangs):
    closed = threading.Event()

    class Hangs(SmallHarness):
        def create_split(self):
            hangs.set()
            closed.wait()

        def close(self):
            closed.set()

    with pytest.raises(ConformanceError, match=r"did not end within 0\.1 s(?s:.*)in create_split"):
        opted_out(Hangs, deadline_s=0.1)
    assert closed.is_set()
