"""The queue: requests, their retries, and one sentence for each error."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.support.queues import REGION
from tests.support.servers.stub import stub
from tidegate.enumerators.s3.notifications import queue as notification_queue
from tidegate.enumerators.s3.notifications.queue import NotificationQueue
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.readers.s3.config import S3ConnectionConfig

CONFIG = S3ConnectionConfig(region=REGION, access_key="any", secret_key="sesame", deadline_s=20)  # noqa: S106


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(notification_queue, "_WAIT_S", 0)


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
