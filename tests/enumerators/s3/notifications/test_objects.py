"""Objects that are found by the messages of a queue and by listings, and messages that name none."""

import logging
import time

import pytest

from tests.enumerators.s3.objects import Store
from tests.enumerators.s3.queue_queries import BUCKET, DAY_MS, DISCOVERY_S, put, tell
from tests.support.command import await_that
from tests.support.logs import WALL
from tests.support.queues import TEST_EVENT, event_bridge_body, s3_body, sns_body
from tidegate.alignment.budget import Budget
from tidegate.enumerators.s3.notifications.messages import HIDDEN_S

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
    told = ["direct", "by a topic", "by a bus", "by both", "first", "second"]
    assert one.delivered == dict.fromkeys(["old", *told], 1)
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
