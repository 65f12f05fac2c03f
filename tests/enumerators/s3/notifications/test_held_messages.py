"""Messages that may not be deleted yet stay hidden from others."""

import pytest

from tests.support.command import await_that
from tidegate.enumerators.s3.notifications import messages as held_messages
from tidegate.enumerators.s3.notifications.messages import HIDDEN_S, HeldMessages
from tidegate.enumerators.s3.notifications.queue import Message


class Recorded:
    """Remembers its requests."""

    def __init__(self):
        self.hidden, self.deleted = [], []

    def hide(self, receipts):
        self.hidden += receipts

    def delete(self, receipts):
        self.deleted += receipts


@pytest.fixture
def queue():
    return Recorded()


@pytest.fixture
def held(queue):
    made = HeldMessages(queue)
    yield made
    made.close()


def message(name, receipt="1"):
    return Message(name, f"{name}/{receipt}", "body", 1)


def test_messages_stay_hidden_as_long_as_they_are_held(queue, held, monkeypatch):
    monkeypatch.setattr(held_messages, "_RENEWED_S", 0.01)
    held._renew_at = 0
    held.take([message("a"), message("b")])
    held.end_round(1)
    await_that(lambda: queue.hidden.count(("a/1", HIDDEN_S)) > 2)
    held.stored(1)
    await_that(lambda: sorted(queue.deleted) == ["a/1", "b/1"])
    hidden = len(queue.hidden)
    held.take([message("c")])
    await_that(lambda: len(queue.hidden) > hidden + 2)
    assert set(queue.hidden[hidden + 2 :]) == {("c/1", HIDDEN_S)}


def test_a_message_that_comes_again_is_not_new_and_is_deleted_by_its_last_receipt(queue, held):
    assert held.take([message("a"), message("b")]) == [message("a"), message("b")]
    assert held.take([message("a", "2"), message("c")]) == [message("c")]
    held.end_round(1)
    assert held.take([message("b", "3")]) == []
    held.stored(1)
    await_that(lambda: sorted(queue.deleted) == ["a/2", "b/3", "c/1"])
    assert len(held) == 0


def test_each_round_is_deleted_when_its_number_or_a_greater_one_is_stored(queue, held):
    for number in (1, 2, 2, 5):
        held.begin_round()
        held.take([message(f"{number}-{len(held)}")])
        held.end_round(number)
    held.stored(0)
    held.stored(1)
    await_that(lambda: queue.deleted == ["1-0/1"])
    held.stored(4)
    await_that(lambda: len(queue.deleted) == 3)
    held.take([message("late")])
    held.end_round(4)
    await_that(lambda: queue.deleted[3:] == ["late/1"])
    held.stored(1)
    assert len(held) == 1
    held.close()
    assert queue.deleted[4:] == []
