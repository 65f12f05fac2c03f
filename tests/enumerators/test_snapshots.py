import pytest
from pydantic import TypeAdapter
from typing_extensions import NotRequired, TypedDict

from tidegate import KafkaSource, S3Source
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


@pytest.mark.parametrize(
    ("source", "state", "name"),
    [
        (KafkaSource(bootstrap_servers="nowhere:1", subscribe=["orders"]), {"cluster": 5}, "cluster"),
        (KafkaSource(bootstrap_servers="nowhere:1", subscribe=["orders"]), {"eventTimeUnit": "eon"}, "eventTimeUnit"),
        (S3Source(path="s3://bucket", state_location="/nowhere"), {"owner": "a", "seen": None}, "number"),
        (S3Source(path="s3://bucket", state_location="/nowhere"), {"owner": "a", "number": 1, "seen": []}, "seen"),
    ],
)
def test_every_source_looks_at_its_snapshot_before_it_asks_anybody(source, state, name):
    with pytest.raises(CheckpointError, match=f"'{name}' of its enumerator is not as it was written"):
        source.enumerator(state)
