"""Plans with splits that lose records, fall quiet or are complete."""

import pytest

from tests.alignment.logs import Entry, log
from tests.alignment.model import World, states
from tidegate.alignment.plan import Limits
from tidegate.alignment.states import SplitState
from tidegate.errors import DataLossError


class TestDataLoss:
    """Rule 7: extents that do not fit positions, and records that may not be read yet."""

    @pytest.mark.parametrize("fail_on_data_loss", [True, False])
    def test_a_split_that_ends_before_its_position_is_always_an_error(self, fail_on_data_loss):
        world = World({"a": log(0, 1, 2)}, Limits(fail_on_data_loss=fail_on_data_loss))
        world.plan()
        world.logs["a"].end = 1
        with pytest.raises(DataLossError, match="ends at position 1, before position 3"):
            world.plan()

    def test_a_split_whose_unread_records_were_deleted_is_not_idle_at_once(self):
        world = World({"a": log(0), "b": log(0, 100)}, Limits(max_drift_ms=10, fail_on_data_loss=False))
        world.drain()
        assert states(world)["b"] is SplitState.PAUSED
        world.trim("b", 2)
        world.quiet.add("b")
        world.plan()
        assert states(world)["b"] is SplitState.CAUGHT_UP


class TestComplete:
    """A split to which nothing will be added, in a source that goes on: a manifest of objects."""

    def test_the_plan_that_reads_the_last_of_it_moves_the_watermark_past_it(self):
        world = World({"read": log(0, 5), "long": log(0, 50, 60)}, Limits(max_drift_ms=55))
        world.logs["read"].complete = True
        assert world.plan().progress.watermark_ms == 54
        assert states(world)["read"] is SplitState.READING

    def test_when_all_are_read_the_watermark_is_of_the_one_that_came_furthest_and_the_source_goes_on(self):
        world = World({"a": log(0, 5), "b": log(0, 50)}, Limits())
        for split_log in world.logs.values():
            split_log.complete = True
        world.drain()
        assert (world.progress.watermark_ms, world.progress.ended) == (49, False)
        world.discover("c", log(60, 70))
        world.drain()
        assert (world.read("c"), world.progress.watermark_ms) == ([60, 70], 69)


class TestHorizon:
    """Rule 2: a record past the horizon waits alone, and its time says nothing of others."""

    LIMITS = Limits(max_drift_ms=10, horizon_ms=1_000)

    def test_it_moves_no_watermark_when_the_others_are_idle(self):
        world = World({"a": log(0, 20), "held": log(5, 5_000)}, self.LIMITS)
        world.drain()
        world.quiet.add("a")
        world.plan()
        assert states(world)["a"] is SplitState.IDLE
        assert world.progress.watermark_ms == 19

    def test_it_moves_the_watermark_once_its_time_has_come(self):
        world = World({"held": log(5, 5_000, 6_000)}, self.LIMITS)
        world.drain()
        world.limits = Limits(max_drift_ms=10, horizon_ms=5_500)
        world.drain()
        assert world.read("held") == [5, 5_000]
        assert world.progress.watermark_ms == 4_999

    def test_the_watermark_does_not_pass_it_though_others_were_read_before_the_clock_went_back(self):
        world = World({"a": log(0, 1_500), "b": log(0)}, Limits(horizon_ms=2_000))
        world.drain()
        world.limits = Limits(horizon_ms=1_000)
        world.logs["b"].entries.append(Entry(1, 1_200))
        world.logs["b"].append(1)
        world.drain()
        assert world.read("b") == [0]
        assert world.progress.watermark_ms == 1_199

    def test_a_late_split_that_waits_for_the_clock_holds_no_watermark(self):
        world = World({"a": log(150), "b": log(100)}, Limits())
        world.plan()
        world.quiet.add("b")
        world.discover("late", log(60))
        world.limits = Limits(horizon_ms=50)
        world.plan()
        assert (states(world)["late"], world.progress.watermark_ms) == (SplitState.PAUSED, 149)
