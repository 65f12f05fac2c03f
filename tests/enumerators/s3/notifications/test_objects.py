"""Objects that are found by the messages of a queue and by listings: none is lost or read twice."""

import logging
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.s3.objects import MODIFIED, Store
from tests.enumerators.s3.queue_queries import BUCKET, CONFIG, DAY_MS, DISCOVERY_S, Query, put, tell
from tests.support.command import await_that
from tests.support.logs import WALL
from tests.support.queues import TEST_EVENT, Queue, event_bridge_body, s3_body, sns_body
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.enumerators.s3.notifications.queue import HIDDEN_S, Message, NotificationQueue, QueueState
from tidegate.errors import ConnectorError

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_query_lists_when_it_begins_and_then_finds_what_it_is_told(queue_query, store, queue):
    put(store, "old")
    one = queue_query()
    one.look()
    put(store, "untold", "direct", "by a topic", "by a bus", "by both", "first", "second")
    queue.send(
        s3_body((BUCKET, "direct")),
        sns_body(s3_body((BUCKET, "by a topic"))),
        event_bridge_body(BUCKET, "by a bus"),
        sns_body(event_bridge_body(BUCKET, "by both")),
        s3_body((BUCKET, "first"), (BUCKET, "second")),
    )
    one.look()
    reported = ["direct", "by a topic", "by a bus", "by both", "first", "second"]
    assert one.delivered == dict.fromkeys(["old", *reported], 1)
    one.stop()
    one.look()
    assert store.rounds == 1
    await_that(lambda: not len(queue))


def test_what_is_not_to_be_read_is_dropped_with_its_message(queue_query, store, queue):
    put(store, "in/a", "in/_temporary/0/a", "in/.hidden", "elsewhere/a", "in/deleted")
    one = queue_query(prefix="in/", include_existing=False)
    one.look()
    asked = []
    store.find = lambda key: asked.append(key) or Store.find(store, key)
    put(store, "in/b", "in/_temporary/0/b", "in/.b", "elsewhere/b", "in/untold")
    tell(queue, "in/b", "in/_temporary/0/b", "in/.b", "elsewhere/b", "in/nowhere")
    queue.send(
        TEST_EVENT,
        s3_body(("another", "in/untold")),
        s3_body((BUCKET, "in/deleted"), event="ObjectRemoved:Delete"),
        event_bridge_body(BUCKET, "in/deleted", "Object Deleted"),
    )
    one.look()
    one.look()
    assert one.delivered == {"in/b": 1}
    assert sorted(asked) == ["in/.b", "in/b", "in/nowhere"]
    await_that(lambda: not len(queue))


def test_an_object_is_taken_as_it_is_when_its_message_comes(queue_query, store, queue):
    one = queue_query()
    one.look()
    store.put("a", [1])
    tell(queue, "a")
    store.put("a", [2], [3])
    tell(queue, "a")
    store.put("gone", [1])
    tell(queue, "gone")
    del store.objects["gone"]
    one.clock.sleep(DISCOVERY_S + 1)
    tasks = one.run.tasks(one.offset, one.plan())
    chunks = [chunk for task in tasks for some in task.details for chunk in some]
    assert sorted((chunk.key, chunk.min_ms) for chunk in chunks) == [("a", 2), ("a", 3)]


def test_what_is_malformed_stalls_nothing_and_is_left_in_the_queue(queue_query, store, queue, caplog):
    one = queue_query()
    one.look()
    caplog.clear()  # there is no object yet
    bad = queue.send('{"order": "confidential"}')
    queue.send(*["no JSON"] * 20)
    put(store, "a", "b")
    tell(queue, "a")
    one.look()
    tell(queue, "b")
    one.look()
    assert one.delivered == {"a": 1, "b": 1}
    await_that(lambda: len(queue) == 21)
    queue.pass_time(HIDDEN_S * 2)
    for _ in range(3):
        one.look()
    assert queue.counts() == (0, 21)
    assert one.source.metrics().items() >= {("approximateQueueSize", 0), ("numMalformedMessages", 21)}
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("left in the queue, for its redrive policy to put aside: 21 messages, such as")
    assert "confidential" not in caplog.text
    assert bad in queue.hidden_s()


def test_a_malformed_message_is_named_once_and_hidden_for_longer_each_time(queue_query, queue, caplog):
    one = queue_query()
    one.look()
    bad = queue.send("no JSON")
    hidden_s = []
    for _ in range(8):
        one.look()
        hidden_s.append(round((queue.hidden_s()[bad] - time.time()) / HIDDEN_S))
        queue.pass_time(12 * 3600)
    assert hidden_s == [2, 4, 8, 16, 32, 64, 128, 256]
    assert caplog.text.count(f"such as {bad}, which is not JSON") == 1


def test_a_repair_listing_finds_what_no_message_told(queue_query, store, queue):
    one = queue_query(backfill_ms=DAY_MS)
    one.look()
    put(store, "untold", "told")
    tell(queue, "told")
    one.look()
    one.clock.sleep(DAY_MS / 1000 - 4 * DISCOVERY_S)
    one.look()
    assert one.delivered == {"told": 1}
    one.stop()  # the time of the last listing is in the checkpoint
    one.look()
    assert (one.delivered, store.rounds) == ({"told": 1}, 1)
    one.clock.sleep(2 * DISCOVERY_S)
    one.look()
    assert one.delivered == {"told": 1, "untold": 1}
    one.look()
    assert store.rounds == 2


def test_a_repair_listing_finds_everything_since_the_one_before_whatever_the_age_limit(queue_query, store, queue):
    one = queue_query(backfill_ms=10 * DAY_MS, max_age_ms=DAY_MS)
    one.look()
    now_ms = int((WALL + one.clock.now) * 1000)
    store.put("untold", [1], modified_ms=now_ms)
    one.clock.sleep(9 * DAY_MS / 1000)
    store.put("told", [1], modified_ms=now_ms + 9 * DAY_MS)
    tell(queue, "told")
    one.look()
    assert one.delivered == {"told": 1}
    one.clock.sleep(DAY_MS / 1000)
    one.look()
    assert one.delivered == {"told": 1, "untold": 1}


def test_a_run_with_another_queue_lists_what_that_may_have_missed(queue_query, store, queue, sqs):
    one = queue_query()
    one.look()
    one.stop()
    put(store, "told to the old queue", "told to the new queue")
    tell(queue, "told to the old queue")
    other = Queue(sqs)
    tell(other, "told to the new queue")
    one.queue = lambda: NotificationQueue(CONFIG, other.url)
    one.look()
    one.stop()
    one.look()
    assert one.delivered == {"told to the old queue": 1, "told to the new queue": 1}
    assert store.rounds == 2


@pytest.mark.parametrize("days", [3, 5])  # moto's queues keep messages for four days
def test_a_run_after_the_queue_may_have_lost_messages_lists_what_they_told_of(queue_query, store, queue, days):
    one = queue_query()
    one.look()
    now_ms = int((WALL + one.clock.now) * 1000)
    store.put("told", [1], modified_ms=now_ms)
    tell(queue, "told")
    one.look()
    one.stop()
    store.put("lost", [1], modified_ms=now_ms + 1000)
    one.clock.sleep(days * DAY_MS / 1000)
    one.look()
    assert one.delivered == {"told": 1, **({"lost": 1} if days == 5 else {})}


def test_a_message_may_be_as_old_as_the_queue_keeps_it(queue_query, store, queue):
    one = queue_query(max_age_ms=DAY_MS)
    one.look()
    now_ms = int((WALL + one.clock.now) * 1000)
    store.put("new", [1], modified_ms=now_ms)
    tell(queue, "new")
    one.look()
    store.put("old", [1], modified_ms=now_ms - 4 * DAY_MS)  # moto's queues keep messages for four days
    store.put("too old", [1], modified_ms=now_ms - 5 * DAY_MS - 1)
    tell(queue, "old", "too old")
    one.look()
    assert one.delivered == {"new": 1, "old": 1}


def test_what_is_there_at_the_beginning_may_be_left_out_and_what_comes_then_is_not(queue_query, store, queue):
    put(store, "old")
    tell(queue, "old")
    one = queue_query(include_existing=False)

    def come(_):
        store.on_page = lambda _: None
        put(store, "new")
        tell(queue, "new")

    store.on_page = come
    one.look()
    one.look()
    assert one.delivered == {"new": 1}
    one.look()
    await_that(lambda: not len(queue))


def test_a_bounded_run_takes_all_that_the_queue_has(queue_query, store, queue):
    one = queue_query()
    one.look()
    one.stop()
    names = [f"{number:03}" for number in range(60)]
    put(store, *names)
    tell(queue, *names)
    one.begin(bounded=True)
    while one.batch(Budget(files=25)):
        pass
    one.stop()
    assert one.delivered == dict.fromkeys(names, 1)
    assert not len(queue)


def test_a_round_leaves_what_is_sent_meanwhile_to_the_next_one(queue_query, store, queue, monkeypatch):
    """Objects come without a pause, so no answer is empty."""
    one, left, receive = queue_query(), iter(range(500)), NotificationQueue.receive

    def receive_and_send(self, hidden_s):
        for number in islice(left, 1):
            put(store, str(number))
            tell(queue, str(number))
        return receive(self, hidden_s)

    one.look()
    monkeypatch.setattr(NotificationQueue, "receive", receive_and_send)
    one.look()
    assert 0 < len(one.delivered) < 20
    one.look()
    monkeypatch.undo()
    one.look()
    assert one.delivered == {str(number): 1 for number in range(next(left))}


TWO_HOURS_MS = 1_699_999_200_000 - 1  # the end of both folders, on 14 November 2023


def test_messages_are_deleted_only_when_the_offset_with_their_objects_is_stored(queue_query, store, queue):
    put(store, "old")
    one = queue_query()
    one.look()
    put(store, "a", "b")
    tell(queue, "a", "b", "a", "old")
    one.clock.sleep(DISCOVERY_S + 1)
    end = one.plan()
    one.clock.sleep(DISCOVERY_S + 1)
    assert one.plan() != one.offset  # Spark has not stored anything yet
    assert not one.notifications.held._done
    assert queue.counts() == (0, 4)
    one.store_and_read(end)
    one.plan()
    await_that(lambda: not len(queue))


def test_a_marker_that_no_stored_offset_holds_comes_again_after_a_kill(queue_query, store, queue):
    first, second = (f"dt=2023-11-14/hour={hour}/" for hour in (20, 21))
    put(store, f"{first}a", f"{second}a")
    one = queue_query(markers="marker:dt={yyyy-MM-dd}/hour={HH}/_SUCCESS")
    one.look()
    put(store, f"{second}_SUCCESS")
    tell(queue, f"{second}_SUCCESS")
    one.look()  # the first folder holds back the watermark, so nothing moves, and no offset is stored
    assert not one.notifications.held._done
    one.kill()
    queue.pass_time(HIDDEN_S)
    put(store, f"{first}_SUCCESS")
    tell(queue, f"{first}_SUCCESS")
    one.look()
    assert one.source.completeness().until_ms == TWO_HOURS_MS
    put(store, "another")
    tell(queue, "another")
    one.look()
    one.plan()
    await_that(lambda: not len(queue))


def test_closing_while_objects_are_asked_for_ends_soon_and_leaves_no_thread(queue_query, store, queue):
    before = {*threading.enumerate()}
    one = queue_query()
    one.look()
    names = [f"{number:03}" for number in range(100)]
    put(store, *names)
    tell(queue, *names)
    asked, go_on, answered = threading.Event(), threading.Event(), []

    def hang(key):
        asked.set()
        answered.append(go_on.wait(60))

    store.find = hang
    one.source._rounds.begin()
    assert asked.wait(60)
    one.stop()
    assert answered == []
    go_on.set()
    await_that(lambda: not {*threading.enumerate()} - before)


class MemoryQueue:
    """A queue in memory with the test's clock; it is the same for all runs."""

    identity = "in memory"

    def __init__(self, clock):
        self._clock, self._messages, self._lock = clock, {}, threading.Lock()
        self._numbers = iter(range(1_000_000))

    def send(self, body):
        with self._lock:
            self._messages[f"m{next(self._numbers)}"] = [body, 0.0, 0, ""]

    def __len__(self):
        return len(self._messages)

    def receive(self, hidden_s):
        with self._lock:
            received = []
            for name, message in reversed(self._messages.items()):
                if message[1] <= self._clock.now and len(received) < 10:
                    message[1:] = self._clock.now + hidden_s, message[2] + 1, f"{name} {message[2]}"
                    received.append(Message(name, message[3], message[0], message[2]))
            return received

    def hide(self, receipts):
        with self._lock:
            for receipt, hidden_s in receipts:
                for message in self._messages.values():
                    if message[3] == receipt:
                        message[1] = self._clock.now + hidden_s

    def delete(self, receipts):
        with self._lock:
            gone = set(receipts)
            self._messages = {name: message for name, message in self._messages.items() if message[3] not in gone}

    def state(self):
        return QueueState(4 * DAY_MS, len(self._messages))

    def close(self):
        pass


steps = st.lists(
    st.fixed_dictionaries(
        {
            "puts": st.integers(0, 3),
            "tells": st.lists(st.integers(0, 20), max_size=4),
            "passes_s": st.sampled_from([0, DISCOVERY_S + 1, HIDDEN_S + 1]),
            "budget": st.sampled_from([UNLIMITED, Budget(files=1)]),
            "ends": st.sampled_from(["well"] * 5 + ["lost", "stored", "killed", "stopped"]),
        }
    ),
    max_size=15,
)


@settings(max_examples=40)
@given(steps, st.booleans(), st.booleans())
def test_whatever_happens_every_object_is_read_once_and_no_message_stays(life, listed_again, holds_group):
    known = {"backfill_ms": 100_000 if listed_again else None, "holds_group": holds_group}
    with tempfile.TemporaryDirectory() as folder:
        store = Store()
        one = Query(store, lambda: queue, Path(folder), **known)
        queue = MemoryQueue(one.clock)
        queue.send("no JSON")
        try:
            live(one, queue, life)
            for _ in range(4):
                one.clock.sleep(HIDDEN_S)
                one.look()
            one.stop()
        finally:
            one.kill()
        assert one.delivered == dict.fromkeys(store.objects, 1)
        assert len(queue) == 1


def live(one, queue, life):
    for step in life:
        for _ in range(step["puts"]):
            key = str(len(one.store.objects))
            one.store.put(key, [int(key) * 7 % 10], modified_ms=MODIFIED)
            queue.send(s3_body((BUCKET, key)))
        for key in step["tells"]:
            queue.send(s3_body((BUCKET, str(key))))  # perhaps of an object that does not exist yet
        one.clock.sleep(step["passes_s"])
        end = one.plan(step["budget"])
        if step["ends"] != "lost" and end != one.offset:
            one.store_and_read(end)
        if step["ends"] == "stored":
            one.plan()
        if step["ends"] == "stopped":
            one.stop()
        elif step["ends"] != "well":
            one.kill()
        assert set(one.delivered.values()) <= {1}


def test_what_keeps_messages_from_being_deleted_ends_the_next_round(store, tmp_path):
    one = Query(store, lambda: queue, tmp_path)
    queue = MemoryQueue(one.clock)

    def refuse(receipts):
        if receipts:
            raise ConnectorError("the endpoint refused to delete")

    queue.delete = refuse
    one.look()
    put(store, "a")
    queue.send(s3_body((BUCKET, "a")))
    one.look()
    one.plan()
    await_that(lambda: one.notifications.held._problem)
    one.clock.sleep(DISCOVERY_S + 1)
    with pytest.raises(ConnectorError, match="the endpoint refused to delete"):
        one.plan()
    one.stop()
