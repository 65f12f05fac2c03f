"""What can be found out by peeks alone."""

from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.alignment.splits import Head
from tidegate.enumerators.probing import last_before

LOGS = st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, 60)), min_size=1)


@given(logs=LOGS, end=st.integers(0, 70), begin=st.integers(0, 20))
@example(logs={"a": {3, 4}}, end=9, begin=0)
def test_the_last_record_before_an_end_is_found_whatever_holes_there_are(logs, end, begin):
    def peek(positions):
        heads = {s: min((at for at in logs[s] if at >= position), default=None) for s, position in positions.items()}
        return {split: None if at is None else Head(at, 1_000 + at) for split, at in heads.items()}

    found = last_before(peek, dict.fromkeys(logs, end), dict.fromkeys(logs, begin))
    last = {split: max((at for at in log if begin <= at < end), default=None) for split, log in logs.items()}
    assert found == {split: None if at is None else 1_000 + at for split, at in last.items()}
