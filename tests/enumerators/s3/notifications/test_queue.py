"""The queue: requests, messages in all their shapes, and messages that stay hidden while they are held."""

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.command import await_that
from tests.support.queues import REGION, TEST_EVENT, event_bridge_body, s3_body, s3_record, sns_body
from tests.support.servers.stub import stub
from tidegate.enumerators.s3.notifications import queue as held_messages
from tidegate.enumerators.s3.notifications.queue import (
    HIDDEN_S,
    HeldMessages,
    Message,
    NotificationQueue,
    created_objects,
)
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.readers.s3.config import S3ConnectionConfig

CONFIG = S3ConnectionConfig(region=REGION, access_key="any", secret_key="sesame", deadline_s=20)  # noqa: S106


pytestmark = pytest.mark.usefixtures("no_waiting")


@contextmanager
def endpoint(*answers):
    """Answer requests with one error after the other, as (status, code), and then with no messages."""

    remaining = list(answers)

    def answer(_):
        status, code = remaining.pop(0) if remaining else (200, None)
        return status, {} if code is None else {"__type": f"com.amazonaws.sqs#{code}"}

    with stub(answer) as url:
        yield f"{url}/1/queue"


def test_messages_are_received_hidden_and_deleted(queue):
    asked = NotificationQueue(CONFIG, queue.url)
    names = {queue.send(f"body {number}") for number in range(25)}
    assert asked.state() == (4 * 86_400_000, 25)
    received = []
    while some := asked.receive(60):
        assert len(some) <= 10
        received += some
    assert {(message.id, message.received) for message in received} == {(name, 1) for name in names}
    asked.hide((message.receipt, 0) for message in received[:15])
    again = [message for _ in range(2) for message in asked.receive(60)]
    assert {(message.id, message.received) for message in again} == {(message.id, 2) for message in received[:15]}
    asked.delete(message.receipt for message in [*again, *received[15:]])
    assert len(queue) == 0
    asked.delete(["of nobody"])
    asked.hide([("of nobody", 10)])


def test_there_has_to_be_such_a_queue(queue):
    with pytest.raises(OptionError, match=r"queueUrl is 'http://.*-x', and there is no such queue"):
        NotificationQueue(CONFIG, queue.url + "-x").receive(60)


def test_a_queue_that_names_no_retention_keeps_messages_for_the_longest_time():
    with stub(lambda _: (200, {"Attributes": {"ApproximateNumberOfMessages": "3"}})) as url:
        assert NotificationQueue(CONFIG, f"{url}/1/queue").state() == (14 * 86_400_000, 3)


@pytest.mark.parametrize("code", ["AccessDeniedException", "InvalidSignatureException"])
def test_a_refusal_is_one_sentence_that_names_the_queue_and_the_region(code):
    with endpoint((403, code)) as url, pytest.raises(ConnectorError) as caught:
        NotificationQueue(CONFIG, url).state()
    assert str(caught.value) == f"the endpoint refused to look at the queue {url} in us-east-1: {code}"


@pytest.mark.slow
def test_what_passes_is_asked_for_again():
    with endpoint(*[(400, "RequestThrottled")] * 4, *[(503, "ServiceUnavailable")] * 4) as url:
        assert NotificationQueue(CONFIG, url).receive(60) == []


def test_a_queue_with_too_many_hidden_messages_gives_no_more():
    with endpoint((403, "OverLimit")) as url:
        assert NotificationQueue(CONFIG, url).receive(60) == []


def test_a_queue_that_does_not_answer_is_given_up_at_the_deadline():
    with endpoint() as url:
        pass
    with pytest.raises(DeadlineError, match=r"cannot receive messages of the queue http://.* within 0\.5 s"):
        NotificationQueue(replace(CONFIG, deadline_s=0.5), url).receive(60)


def test_a_queue_that_is_closed_tries_nothing_again():
    with endpoint() as url:
        pass
    asked = NotificationQueue(CONFIG, url)
    asked.close()
    with pytest.raises(ConnectorError, match="Could not connect"):
        asked.receive(60)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("sqs-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("vpce-0a1b-2c3d.sqs.ap-southeast-2.vpce.amazonaws.com", "ap-southeast-2"),
        ("sqs.eu-central-1.localhost.localstack.cloud:4566", "eu-central-1"),
        ("127.0.0.1:5000", REGION),
        ("sqs.example.com", REGION),
    ],
)
def test_the_region_is_the_one_that_the_url_names(host, region):
    asked = NotificationQueue(replace(CONFIG, anonymous=True), f"https://{host}/123456789012/name")
    assert asked._config == replace(CONFIG, endpoint=f"https://{host}", region=region)


HIDDEN = "do-not-show-me"

# A key is at most 1,024 bytes of UTF-8; XML, and so S3's listing, has no surrogates.
keys = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" +%/&=?#é€😀"), min_size=1, max_size=200)
NAMES = (
    "Records",
    "Type",
    "Message",
    "source",
    "detail-type",
    "detail",
    "Event",
    "eventName",
    "s3",
    "bucket",
    "object",
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES) | st.text(max_size=3),
            inner | st.sampled_from(["Notification", "aws.s3", "Object Created", "ObjectCreated:Put", "s3:TestEvent"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(keys, min_size=1, max_size=3))
@example(["in/a b+c%20d%é/x=1&y#?.json"])
def test_keys_are_named_as_they_are_whatever_their_characters_and_the_way_of_the_message(names):
    direct = s3_body(*(("b", key) for key in names))
    for body in (direct, sns_body(direct)):
        assert created_objects(body) == [("b", key) for key in names]
    for body in (event_bridge_body("b", names[0]), sns_body(event_bridge_body("b", names[0]))):
        assert created_objects(body) == [("b", names[0])]


@pytest.mark.parametrize(
    "event", ["ObjectCreated:Put", "ObjectCreated:CompleteMultipartUpload", "s3:ObjectCreated:Copy"]
)
def test_objects_are_created_in_many_ways(event):
    assert created_objects(s3_body(("b", "k"), event=event)) == [("b", "k")]


@pytest.mark.parametrize(
    "body",
    [
        s3_body(("b", "k"), event="ObjectRemoved:Delete"),
        s3_body(("b", "k"), event="ObjectTagging:Put"),
        event_bridge_body("b", "k", "Object Deleted"),
        event_bridge_body("b", "k", "Object Storage Class Changed"),
        TEST_EVENT,
        sns_body(TEST_EVENT),
        s3_body(),
    ],
)
def test_other_events_and_tests_name_nothing(body):
    assert created_objects(body) == []


def test_what_was_created_is_taken_out_of_a_message_of_several_events():
    records = [s3_record("b", "1"), s3_record("b", "2", "ObjectRemoved:Delete"), s3_record("c", "3")]
    assert created_objects(json.dumps({"Records": records})) == [("b", "1"), ("c", "3")]


def without(body, *path):
    """Return a body without the value at a path."""
    content = json.loads(body)
    place = content
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return json.dumps(content)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "is not JSON"),
        (HIDDEN, "is not JSON"),
        ("{" * 100_000, "is not JSON"),
        ('"\\ud800"', "is not JSON"),
        ("[]", "is not a notification of S3"),
        (json.dumps({"order": HIDDEN}), "is not a notification of S3"),
        (json.dumps({"source": "aws.ec2", "detail-type": HIDDEN}), "is not a notification of S3"),
        (json.dumps({"Type": "SubscriptionConfirmation", "Token": HIDDEN}), "is not a notification of S3"),
        (sns_body(HIDDEN), "is not JSON"),
        (json.dumps({"Type": "Notification"}), "lacks Message"),
        (json.dumps({"Records": HIDDEN}), "holds Records that are not a list"),
        (json.dumps({"Records": [HIDDEN]}), "lacks eventName"),
        (without(s3_body(("b", HIDDEN)), "Records", 0, "s3", "bucket", "name"), "lacks s3.bucket.name"),
        (s3_body(("b", "")), "lacks s3.object.key"),
        (s3_body(("b", "x" * 1025)), "holds a key of more than 1024 bytes"),
        (s3_body(("b", "k")).replace('"k"', '"%FF"'), "holds a key that is not UTF-8"),
        (without(event_bridge_body("b", HIDDEN), "detail", "object", "key"), "lacks detail.object.key"),
        (event_bridge_body("b", HIDDEN, "AWS API Call via CloudTrail"), "holds no event of an object"),
    ],
)
def test_what_is_malformed_says_why_and_shows_nothing(body, reason):
    assert HIDDEN not in reason
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        created_objects(body)


@given(st.text() | values.map(json.dumps) | values.map(lambda value: sns_body(json.dumps(value))))
def test_whatever_a_body_is_it_names_objects_or_is_malformed(body):
    named, reason = understood(body)
    assert all(created.bucket and created.key for created in named)
    assert not reason or reason.startswith(("is ", "lacks ", "holds "))


def understood(body):
    """Return the objects that a body names, and the reason if it is malformed."""
    try:
        return created_objects(body), ""
    except ValueError as problem:
        return [], str(problem)


@given(keys)
def test_a_key_that_other_software_encodes_more_strictly_is_the_same(key):
    body = s3_body(("b", key)).replace(json.dumps(quote_plus(key, safe="/")), json.dumps(quote_plus(key, safe="")))
    assert created_objects(body) == [("b", key)]


class Recorded:
    """Remembers its requests."""

    def __init__(self):
        self.hidden, self.deleted = [], []

    def hide(self, receipts):
        self.hidden += receipts

    def delete(self, receipts):
        self.deleted += receipts


@pytest.fixture
def recorded():
    return Recorded()


@pytest.fixture
def held(recorded):
    made = HeldMessages(recorded)
    yield made
    made.close()


def message(name, receipt="1"):
    return Message(name, f"{name}/{receipt}", "body", 1)


def test_messages_stay_hidden_as_long_as_they_are_held(recorded, held, monkeypatch):
    monkeypatch.setattr(held_messages, "_RENEWED_S", 0.01)
    held._renew_at = 0
    held.take([message("a"), message("b")])
    held.end_round(1)
    await_that(lambda: recorded.hidden.count(("a/1", HIDDEN_S)) > 2)
    held.stored(1)
    await_that(lambda: sorted(recorded.deleted) == ["a/1", "b/1"])
    hidden = len(recorded.hidden)
    held.take([message("c")])
    await_that(lambda: len(recorded.hidden) > hidden + 2)
    assert set(recorded.hidden[hidden + 2 :]) == {("c/1", HIDDEN_S)}


def test_a_message_that_comes_again_is_not_new_and_is_deleted_by_its_last_receipt(recorded, held):
    assert held.take([message("a"), message("b")]) == [message("a"), message("b")]
    assert held.take([message("a", "2"), message("c")]) == [message("c")]
    held.end_round(1)
    assert held.take([message("b", "3")]) == []
    held.stored(1)
    await_that(lambda: sorted(recorded.deleted) == ["a/2", "b/3", "c/1"])
    assert len(held) == 0


def test_each_round_is_deleted_when_its_number_or_a_greater_one_is_stored(recorded, held):
    for number in (1, 2, 2, 5):
        held.begin_round()
        held.take([message(f"{number}-{len(held)}")])
        held.end_round(number)
    held.stored(0)
    held.stored(1)
    await_that(lambda: recorded.deleted == ["1-0/1"])
    held.stored(4)
    await_that(lambda: len(recorded.deleted) == 3)
    held.take([message("late")])
    held.end_round(4)
    await_that(lambda: recorded.deleted[3:] == ["late/1"])
    held.stored(1)
    assert len(held) == 1
    held.close()
    assert recorded.deleted[4:] == []
