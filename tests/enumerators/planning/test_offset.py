"""The offset JSON: canonical, complete, and refused when it is not ours."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.plan import Progress
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, Hollow, Offset
from tidegate.errors import CheckpointError

splits = st.text(min_size=1, max_size=5)
positions = st.dictionaries(splits, st.integers(0, 2**63 - 1), max_size=4)
times = st.none() | st.integers(-(2**63), 2**63 - 1)
offsets = st.builds(
    Offset,
    st.just("kafka"),
    st.builds(Progress, positions, times, times, st.frozensets(splits, max_size=3)),
    positions,
    st.none() | st.dictionaries(splits, st.integers() | splits, max_size=2),
    waits=st.integers(0, 3),
    hollow=st.just(Hollow()) | st.builds(Hollow, positions.filter(bool), st.sampled_from(["", "9f3a01c2"])),
)


@given(offsets)
def test_what_is_written_is_read_back(offset):
    text = json.dumps(offset.to_json())
    assert Offset.from_json(json.loads(text), "kafka") == Offset.recognized(json.loads(text)) == offset


@given(positions, st.randoms(use_true_random=False))
def test_equal_offsets_give_equal_texts_whatever_the_order_in_which_they_were_made(found, dice):
    shuffled = list(found.items())
    dice.shuffle(shuffled)
    one, other = (Offset("kafka", Progress(p), p).to_json() for p in (found, dict(shuffled)))
    assert json.dumps(one) == json.dumps(other)


def test_the_initial_offset_says_nothing_and_is_of_any_source():
    assert Offset().to_json() == INITIAL_OFFSET == {"v": 1}
    assert Offset.from_json(INITIAL_OFFSET, "anything") == Offset.recognized(INITIAL_OFFSET) == Offset()


@pytest.mark.parametrize(
    "found", [None, 17, {"orders": {"0": 7}}, {"v": {"0": 7}}, {"v": {"0": 7}, "source": {"0": 1}}]
)
def test_the_offset_of_another_source_is_not_recognized(found):
    assert Offset.recognized(found) is None


def written(**changes):
    return {**Offset("kafka", Progress({"a": 1})).to_json(), **changes}


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        (written(v=2), "written by a newer tidegate"),
        (written(source="s3"), "belongs to the source 's3', not to 'kafka'"),
        (written(positions=[1]), "broken offset"),
        (written(positions={"a": "x"}), "broken offset"),
        (written(positions={"a": True}), "broken offset"),
        (written(bound="soon"), "broken offset"),
        (written(v="one"), "not an offset of a tidegate source"),
        ({"orders": {"0": 7}}, "not an offset of a tidegate source, but of Spark's built-in .*`tidegate migrate`"),
        ({"logOffset": 7}, "not an offset of a tidegate source$"),
        ({"orders": {str(p): 7 for p in range(1000)}}, "not an offset of a tidegate source"),
    ],
)
def test_what_cannot_be_continued_is_refused_in_one_short_sentence(offset, sentence):
    with pytest.raises(CheckpointError, match=sentence) as raised:
        Offset.from_json(offset, "kafka")
    assert len(str(raised.value)) < 400
