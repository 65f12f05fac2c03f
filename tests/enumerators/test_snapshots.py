import pytest
from pydantic import TypeAdapter
from typing_extensions import NotRequired, TypedDict

from tidegate.enumerators.snapshots import checked
from tidegate.errors import CheckpointError


class Inner(TypedDict):
    runs: list[str]


class Outer(TypedDict):
    number: int
    seen: Inner | None
    after: NotRequired[str]


SHAPE = TypeAdapter(Outer)


@pytest.mark.parametrize(
    "state",
    [{"number": 1, "seen": None}, {"number": 1, "seen": {"runs": ["a"]}, "after": "b", "of a newer version": [1]}],
)
def test_a_snapshot_that_fits_comes_back_as_it_was(state):
    assert checked(state, SHAPE) == state


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ({"seen": None}, "number"),
        ({"number": "1", "seen": None}, "number"),
        ({"number": 1, "seen": {"runs": ["a", 5]}}, "seen.runs.1"),
        ({"number": 1, "seen": {}}, "seen.runs"),
        ({"number": 1, "seen": None, "after": 5}, "after"),
    ],
)
def test_one_that_does_not_is_refused_in_a_sentence_that_names_the_place(state, name):
    with pytest.raises(CheckpointError, match=f"'{name}' of its enumerator is not as it was written") as raised:
        checked(state, SHAPE)
    assert "\n" not in str(raised.value)
