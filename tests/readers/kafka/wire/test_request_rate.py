"""The limit of requests in a second, by a clock that only its own pauses move."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Clock, most_in_a_second
from tidegate.readers.kafka.wire.request_rate import RequestRate, wait_for_turn


@given(st.integers(1, 50), st.lists(st.floats(0, 2), max_size=200))
def test_no_second_has_more_requests_than_allowed(per_second, works_s):
    clock, begun_s = Clock(), []
    with RequestRate(per_second, clock, clock.sleep).in_force():
        for work_s in works_s:
            wait_for_turn()
            begun_s.append(clock.now)
            clock.sleep(work_s)
    assert most_in_a_second(begun_s) <= per_second
    ended_s = clock.now
    wait_for_turn()
    assert clock.now == ended_s
