from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.readers.kafka.batches import RecordBatch
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import PeekCache

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
GRID = st.lists(st.tuples(st.sampled_from([P, Q]), st.integers(0, 9), st.integers(1, 10)), max_size=20)


def batch(first, last, data=b"xxxx"):
    return RecordBatch(np.frombuffer(bytearray(data), np.uint8), first, last, 0, None, -1, 0, 0, 1)


@given(GRID, st.integers(0, 100))
def test_a_position_is_found_in_the_batch_that_holds_it_and_in_no_other(kept, position):
    peeked = PeekCache()
    for partition, place, length in kept:
        peeked.keep(partition, batch(10 * place, 10 * place + length - 1))
    for partition in (P, Q):
        first = {
            place: length for p, place, length in reversed(kept) if p == partition
        }  # a second batch at a place is ignored
        expected = position % 10 < first.get(position // 10, 0)
        peeked_batch = peeked.at(partition, position)
        assert (peeked_batch is not None) == expected
        assert peeked_batch is None or peeked_batch.base_offset == position // 10 * 10
    peeked.forget()
    assert peeked.at(P, position) is None


def test_what_is_kept_outlives_the_response_and_is_bounded():
    peeked = PeekCache(most_bytes=10)
    response = bytearray(b"abcd")
    peeked.keep(P, RecordBatch(np.frombuffer(response, np.uint8), 0, 9, 0, None, -1, 0, 0, 1))
    response[:] = b"wxyz"
    assert peeked.at(P, 5).data.tobytes() == b"abcd"
    for first in (10, 20):
        peeked.keep(P, batch(first, first + 9))
    assert peeked.at(P, 15) is not None
    assert peeked.at(P, 25) is None
    peeked.forget()
    peeked.keep(P, batch(20, 29))
    assert peeked.at(P, 25) is not None


def test_from_where_there_is_nothing_is_known_until_it_is_forgotten():
    peeked = PeekCache()
    assert not peeked.is_nothing(P, 7)
    peeked.keep_nothing(P, 7)
    peeked.keep_nothing(P, 9)
    assert [peeked.is_nothing(P, position) for position in (6, 7, 8)] == [False, True, True]
    assert not peeked.is_nothing(Q, 7)
    peeked.forget()
    assert not peeked.is_nothing(P, 8)
