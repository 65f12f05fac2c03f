"""The bound of a batch (rule 2)."""

from __future__ import annotations

from dataclasses import replace

from tidegate.alignment.bound import Bound, find_bound
from tidegate.alignment.group import GroupBound
from tidegate.alignment.plan import Limits, Progress
from tidegate.alignment.standing import Standing

DRIFT_10 = Limits(max_drift_ms=10)
STANDING = Standing(Progress({}, watermark_ms=40), {}, {}, {}, {}, {}, {}, low_ms=100, held_by="a")


def test_it_lies_the_max_drift_past_the_low() -> None:
    assert find_bound(STANDING, None, DRIFT_10) == Bound(100, 110, "a")


def test_without_a_drift_only_the_horizon_bounds() -> None:
    assert find_bound(STANDING, None, Limits()) == Bound(100, None, "a")
    assert find_bound(STANDING, None, Limits(horizon_ms=105)) == Bound(100, 105, "a")


def test_it_does_not_fall_but_for_splits_that_catch_up() -> None:
    before = replace(STANDING, before=Progress({}, bound_ms=150))
    assert find_bound(before, None, DRIFT_10).bound_ms == 150
    assert find_bound(replace(before, catching_up=frozenset({"a"})), None, DRIFT_10).bound_ms == 110


def test_the_group_lowers_it_and_is_named() -> None:
    assert find_bound(STANDING, GroupBound(90, 95, "other"), DRIFT_10) == Bound(90, 95, "other")
    assert find_bound(STANDING, GroupBound(200, 210, "other"), DRIFT_10) == Bound(100, 110, "a")


def test_splits_that_are_late_alone_are_read_up_to_the_drift_past_the_watermark() -> None:
    late = replace(STANDING, low_ms=None, held_by=None)
    assert find_bound(late, None, DRIFT_10) == Bound(None, 51, None)
