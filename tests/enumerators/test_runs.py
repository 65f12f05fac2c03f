"""Packing of numbers and numbered names, against what was packed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.enumerators.runs import (
    pack_names,
    pack_numbers,
    pack_values,
    unpack_names,
    unpack_numbers,
    unpack_values,
)

NUMBERS = st.integers(-(2**63), 2**63) | st.integers(0, 3)
STEMS = st.sampled_from(["orders-", "", "a0..", "b-", "0..", "x\n", "٣"]) | st.text(max_size=3)
NUMBERED = st.builds("{}{}".format, STEMS, st.integers(0, 12) | st.sampled_from(["007", "0..3", "4..4", "9" * 30]))
NAMES = st.lists(NUMBERED | st.text(max_size=6), unique=True)
WHOLE = st.builds(
    lambda stem, first, count: [f"{stem}{first + n}" for n in range(count)], STEMS, NUMBERS.map(abs), st.integers(0, 9)
)


@given(st.lists(NUMBERS))
def test_packed_numbers_come_back(numbers):
    assert unpack_numbers(pack_numbers(numbers)) == numbers


@given(NAMES, WHOLE, st.randoms())
def test_packed_names_come_back_and_their_order_does_not_matter(names, run, dice):
    names = [*dict.fromkeys([*names, *run])]
    packed = pack_names(names)
    assert sorted(unpack_names(json.loads(json.dumps(packed)))) == sorted(names)
    dice.shuffle(names)
    assert pack_names(names) == packed


@given(NAMES, WHOLE, st.randoms())
def test_packed_values_come_back_and_their_order_does_not_matter(names, run, dice):
    values = {name: dice.choice([3, dice.randrange(10**9)]) for name in [*names, *run]}
    packed = pack_values(values)
    assert unpack_values(json.loads(json.dumps(packed))) == values
    assert json.dumps(pack_values(dict(sorted(values.items(), reverse=True)))) == json.dumps(packed)


def test_runs_are_told_from_single_names():
    few = {"orders-0": 17, "orders-1": 20, "orders-2": 3}
    assert pack_values(few) == few
    assert pack_values({**few, "orders-3": 3, "orders-5": 1}) == {"orders-0..3": "17 20 3x2", "orders-5": 1}
    assert pack_names(["a", "b-9", "b-10", "b-12", "b-11"]) == ["a", "b-9..12"]


def test_a_name_that_looks_like_a_run_takes_no_key_of_a_run():
    values = {"a-0": 1, "a-1": 2, "a-2": 3, "a-3": 4, "a-0..3": 9, "a-0..3..3": 8}
    packed = pack_values(values)
    assert packed == {"a-0..3": "1 2 3 4", "a-0..3..3": "9", "a-0..3..3..3": "8"}
    assert unpack_values(packed) == values
    assert sorted(unpack_names(pack_names(values))) == sorted(values)


MANY_RUNS = {f"{stem}-0..999999": "1x1000000" for stem in "abc"}


@pytest.mark.parametrize(
    "damaged",
    [
        {"a-0..3": "1 2"},
        {"a-0..3": "1x9"},
        {"a-3..0": ""},
        {"a": "1"},
        {"a-0..99999999999": "1x99999999999"},
        MANY_RUNS,
    ],
)
def test_damaged_values_are_refused_and_take_no_memory(damaged):
    with pytest.raises(ValueError, match=r"."):
        unpack_values(damaged)


@pytest.mark.parametrize("damaged", [["a-0..99999999999"], ["a-0..999999", "b-0..999999"], ["a-9..3"]])
def test_damaged_names_are_refused_and_take_no_memory(damaged):
    with pytest.raises(ValueError, match=r"."):
        unpack_names(damaged)
