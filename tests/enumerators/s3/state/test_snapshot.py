"""The part of an S3 source in the offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.enumerators.s3.state.snapshot import S3Snapshot
from tidegate.errors import CheckpointError

names = st.text(min_size=1, max_size=5)
numbers = st.integers(0, 2**40)
stretches = st.fixed_dictionaries({"roots": st.lists(names), "periods": st.lists(st.lists(numbers, min_size=3))})
snapshots = st.builds(
    S3Snapshot,
    names,
    numbers,
    st.none() | st.fixed_dictionaries({"runs": st.lists(names), "horizon": st.none() | numbers, "newest": numbers}),
    st.none() | st.dictionaries(names, st.lists(numbers)),
    st.dictionaries(names, numbers),
    st.none() | numbers,
    st.none()
    | st.fixed_dictionaries({"template": names, "complete": st.none() | numbers, "stretches": st.lists(stretches)}),
)


@given(snapshots)
def test_what_is_written_is_read_back(snapshot):
    assert S3Snapshot.from_json(snapshot.to_json()) == snapshot
    assert ("clean" in snapshot.to_json()) == (snapshot.clean is not None)


def test_a_query_begins_with_a_name_of_its_own_and_nothing_else():
    one, other = S3Snapshot(), S3Snapshot()
    assert one.owner != other.owner
    assert one.to_json() == {"owner": one.owner, "number": 0, "seen": None}
    assert one.runs == ()


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"seen": {"runs": [5], "horizon": None, "newest": None}}, "seen.runs.0"),
        ({"of_a_newer_version": 1}, "of_a_newer_version"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused(changed, name):
    with pytest.raises(CheckpointError, match=f"'{name}' of its enumerator is not as it was written"):
        S3Snapshot.from_json({**S3Snapshot().to_json(), **changed})
    with pytest.raises(CheckpointError, match="'owner' of its enumerator"):
        S3Snapshot.from_json({"number": 1, "seen": None})
