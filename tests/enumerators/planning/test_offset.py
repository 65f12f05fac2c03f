"""The offset JSON: canonical, complete, and refused when it is not ours."""

import base64
import bz2
import json
import random
import secrets
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.plan import Progress
from tidegate.enumerators.planning import offset as offset_module
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, LAYOUT, Hollow, Offset
from tidegate.enumerators.planning.packed import pack
from tidegate.errors import CheckpointError

WINDOWS = {"windows": {"assigner": "TumblingEventTimeWindows(size=5000)"}}
splits = st.text(max_size=5) | st.from_regex(r"(orders-|a00|a|)([0-9]{1,2}|9{30})", fullmatch=True)
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
    bad_records=st.integers(0, 3),
    add_ons=st.sampled_from([{}, WINDOWS]),
)


def turned(offset):
    """Return an equal offset that was made in another order."""
    positions = dict(reversed(offset.progress.positions.items()))
    starts = dict(reversed(offset.starts.items()))
    return replace(offset, progress=replace(offset.progress, positions=positions), starts=starts)


@given(offsets, st.sampled_from([-1, 2, 100]))
def test_what_is_written_is_read_back_and_does_not_depend_on_the_order(offset, readable):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_module, "_MOST_READABLE", readable)  # splits; an offset of more is packed
        text = json.dumps(offset.to_json())
        assert ("packed" in json.loads(text)) == (len(offset.progress.positions) > readable)
        assert Offset.from_json(json.loads(text), "kafka") == Offset.recognized(json.loads(text)) == offset
        assert json.dumps(turned(offset).to_json()) == text


@pytest.mark.parametrize("topics", [1, 1_000])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_offset_of_ten_thousand_partitions_has_less_than_120_kib(topics, is_first):
    """Spark keeps a hundred of them, each twice.  The digits of real positions are random."""
    dice = random.Random(topics)
    names = [f"company.team.topic-{topic:04}-{number}" for topic in range(topics) for number in range(10_000 // topics)]
    positions = {name: dice.randrange(10**8, 10**9) for name in names}
    starts = {name: at - dice.randrange(3_000) for name, at in positions.items()} if is_first else {}
    ids = [secrets.token_urlsafe(16) for _ in range(topics)]
    epochs = [4] * (10_000 // topics)
    topic_states = {f"company.team.topic-{topic:04}": {"id": of, "epochs": epochs} for topic, of in enumerate(ids)}
    offset = Offset("kafka", Progress(positions, 1_700_000_000_000), starts, {"topics": topic_states})
    assert len(json.dumps(offset.to_json())) < 120 << 10
    assert Offset.from_json(offset.to_json()) == offset


def test_the_initial_offset_says_nothing_and_is_of_any_source():
    assert Offset().to_json() == INITIAL_OFFSET == {"v": LAYOUT}
    assert Offset.from_json(INITIAL_OFFSET, "anything") == Offset.recognized(INITIAL_OFFSET) == Offset()


@pytest.mark.parametrize(
    "value", [None, 17, {"orders": {"0": 7}}, {"v": {"0": 7}}, {"v": {"0": 7}, "source": {"0": 1}}]
)
def test_the_offset_of_another_source_is_not_recognized(value):
    assert Offset.recognized(value) is None


def written(splits=1, **changes):
    return {**Offset("kafka", Progress({f"a-{number}": 1 for number in range(splits)})).to_json(), **changes}


def deflated(content):
    return base64.b64encode(bz2.compress(content)).decode()


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        (written(v=LAYOUT + 1), "written by a newer tidegate"),
        (written(v=LAYOUT - 1), "of an older version of tidegate, which this one does not read"),
        ({"v": 1}, "of an older version of tidegate, which this one does not read"),
        (written(101, packed="eJw"), "broken offset"),
        (written(101, packed=deflated(b"[]")), "broken offset"),
        (written(101, packed=pack({"splits": [["a", [0, 1]]], "positions": [1], "read": [0, 0]})), "broken offset"),
        (written(101, packed=deflated(b"{}" + bytes(65 << 20))), "broken offset"),
        (written(fences=[1]), "written by a newer tidegate: its offset has 'fences', which this one does not know"),
        (
            written(101, packed=pack({"splits": [], "fences": [1]})),
            "written by a newer tidegate: its offset has 'fences', which this one does not know",
        ),
        (written(source="s3"), "belongs to the source 's3', not to 'kafka'"),
        (written(positions=[1]), "broken offset"),
        (written(positions={"a": "x"}), "broken offset"),
        (written(positions={"a": True}), "broken offset"),
        (written(bound="soon"), "broken offset"),
        (written(v="one"), "not an offset of a tidegate source"),
        ({"orders": {"0": 7}}, "not an offset of a tidegate source, but of Spark's built-in .*`tidegate migrate`"),
        ({"logOffset": 7}, "not an offset of a tidegate source$"),
        (7, "the checkpoint holds 7, which is not an offset of a tidegate source$"),  # as Spark's rate source has it
        ({"orders": {str(p): 7 for p in range(1000)}}, "not an offset of a tidegate source"),
    ],
)
def test_what_cannot_be_continued_is_refused_in_one_short_sentence(offset, sentence):
    with pytest.raises(CheckpointError, match=sentence) as raised:
        Offset.from_json(offset, "kafka")
    assert len(str(raised.value)) < 400
