from hypothesis import given, settings
from hypothesis import strategies as st

from tests.alignment.logs import Entry, Log, PeekOnly
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.known_heads import KnownHeads
from tidegate.alignment.splits import Extent, Head


class Counting(PeekOnly):
    """Counts the positions that peeks look through."""

    looked_through = 0

    def peek(self, positions, horizon):
        heads = super().peek(positions, horizon)
        for split, head in heads.items():
            self.looked_through += (self.logs[split].end if head is None else head.position) - positions[split]
        return heads


@settings(max_examples=400)
@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_it_answers_as_looking_would_and_asks_for_no_position_twice(seen, data):
    records = [Head(position, 10 * position) for position, is_seen in enumerate(seen) if is_seen]
    known, end, begin = KnownHeads(), 0, 0
    looked = set()
    for _ in range(data.draw(st.integers(1, 25))):
        end = data.draw(st.integers(end, len(seen)))
        begin = data.draw(st.sampled_from([begin, begin, begin, data.draw(st.integers(begin, max(begin, end)))]))
        known.forget_before({"a": begin})
        position = data.draw(st.integers(begin, max(begin, end)))
        right = next((head for head in records if position <= head.position < end), None)
        head_or_position = known.find("a", position)
        if isinstance(head_or_position, Head):
            assert head_or_position == right or (right is None and head_or_position.position < len(seen))
            continue
        assert position <= head_or_position
        assert not any(position <= head.position < head_or_position for head in records)
        answer = next((head for head in records if head_or_position <= head.position < end), None)
        assert head_or_position not in looked, "a position without a record was looked at again"
        looked |= set(range(head_or_position, end if answer is None else answer.position))
        known.learn("a", head_or_position, answer, end)
        at = data.draw(st.integers(begin, max(begin, end)))
        first = known.first_without("a", at)
        assert first <= at
        assert not any(first <= head.position < at for head in records)


def test_a_stretch_without_a_record_is_looked_through_once_however_it_grows():
    entries = [Entry(0, 5), *[Entry(position, 9, seen=False) for position in range(1, 1000)], Entry(1000, 7)]
    source = Counting({"a": Log(entries)})
    index = TimeIndex(source)
    for end in (400, 401, 700, 1000):
        source.logs["a"].end = end
        index.begin_plan({"a": end // 2}, {"a": Extent(0, end)})
        assert index.heads({"a": end // 2}) == {"a": None}
    assert source.looked_through == 800  # from where it was first asked
    source.logs["a"].end = 1001
    index.begin_plan({"a": 1000}, {"a": Extent(0, 1001)})
    assert index.heads({"a": 1000}) == {"a": Head(1000, 7)}
    assert source.looked_through == 800


def test_the_latest_time_before_a_stretch_without_a_record_is_asked_for_once():
    entries = [Entry(0, 5), *[Entry(position, 9, seen=False) for position in range(1, 1000)]]
    source = Counting({"a": Log(entries)})
    index = TimeIndex(source)
    for end in (400, 700, 1000):
        source.logs["a"].end = end
        index.begin_plan({"a": 1}, {"a": Extent(0, end)})
        assert index.heads({"a": 1}) == {"a": None}
        assert index.latest({"a": Extent(0, end)}) == {"a": 5}
    assert index.lookups == 1


def test_another_index_is_told_of_long_stretches_that_reach_to_the_position():
    logs = {"a": Log([Entry(position, 9, seen=False) for position in range(1000)], end=1000)}
    first, second = TimeIndex(PeekOnly(logs)), TimeIndex(source := Counting(logs))
    first.begin_plan({"a": 10}, {"a": Extent(0, 1000)})
    first.heads({"a": 10})
    assert first.stretches_before({"a": 600}, least=591) == {}
    told = first.stretches_before({"a": 600}, least=590)
    assert told == {"a": 10}
    second.recall(told, {"a": 600})
    second.begin_plan({"a": 600}, {"a": Extent(0, 1000)})
    assert second.heads({"a": 600}) == {"a": None}
    assert source.looked_through == 400
    assert second.stretches_before({"a": 1000}, least=1) == {"a": 10}
