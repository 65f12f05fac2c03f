"""The part of an S3 source in the offset."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.enumerators.s3.state.snapshot import S3Snapshot

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
