"""Receives, hides and deletes messages of an SQS queue."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.errors import OptionError
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.request import ask_s3

LONGEST_HIDDEN_S = 11 * 3600
"""SQS hides a message for at most 12 hours after its reception."""

_MOST_MESSAGES = 10  # SQS's limit for one request
_WAIT_S = 1  # without waiting, SQS asks only some of its servers, and may miss messages (short polling)
_THREADS = 8
_REGION = re.compile(
    r"\bsqs(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\."
)  # in the host of AWS, and of those that act as it
_NO_QUEUE = {"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "InvalidAddress"}
_FULL = "OverLimit"


class Message(NamedTuple):
    """A received message.

    id: the same for all receptions of the message.
    receipt: the receipt handle of this reception; only the last one can delete the message.
    received: the approximate number of receptions so far, with this one.
    """

    id: str
    receipt: str
    body: str
    received: int


class QueueState(NamedTuple):
    """The retention of a queue, and the approximate number of messages that can be received now."""

    retention_ms: int
    messages: int


class NotificationQueue:
    """One queue.  Thread-safe.  It opens nothing before the first request.

    config: the configuration of the bucket.  Its credentials, or its role, are also used for the queue, but requests
        are always signed.  If the URL names a region, that region is used.
    url: the URL of the queue; requests go to its host.

    A failed request is repeated until ``deadline_s``, or until ``close``.  All methods raise OptionError if there is
    no such queue, DeadlineError if it fails or is silent for too long, and ConnectorError if it refuses.
    """

    def __init__(self, config: S3ConnectionConfig, url: str) -> None:
        place = urlsplit(url)
        named = _REGION.search(place.netloc)
        self._config = replace(
            config,
            endpoint=f"{place.scheme}://{place.netloc}",
            region=named[1] if named else config.region,
            anonymous=False,
        )
        self._url = url
        self._closed = threading.Event()

    def close(self) -> None:
        """Repeat no request from now on."""
        self._closed.set()

    def receive(self, hidden_s: int) -> list[Message]:
        """Return at most ten messages, and hide them for ``hidden_s`` seconds.

        No messages: the queue is empty, or SQS gives no more because 120,000 messages are hidden.
        """
        answer = self._ask(
            "receive_message",
            "receive messages of",
            MaxNumberOfMessages=_MOST_MESSAGES,
            WaitTimeSeconds=_WAIT_S,
            VisibilityTimeout=hidden_s,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        return [
            Message(
                message["MessageId"],
                message["ReceiptHandle"],
                message["Body"],
                int(message.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
            )
            for message in answer.get("Messages", ())
        ]

    def hide(self, receipts: Iterable[tuple[str, int]]) -> None:
        """Hide messages by their receipts for some seconds from now on; messages that are gone are ignored."""
        entries = [{"ReceiptHandle": receipt, "VisibilityTimeout": hidden_s} for receipt, hidden_s in receipts]
        self._ask_for_each("change_message_visibility_batch", "hide messages of", entries)

    def delete(self, receipts: Iterable[str]) -> None:
        """Delete messages; a message that was received again since may come again."""
        entries = [{"ReceiptHandle": receipt} for receipt in receipts]
        self._ask_for_each("delete_message_batch", "delete messages of", entries)

    def state(self) -> QueueState:
        """Return the state of the queue."""
        names = ["MessageRetentionPeriod", "ApproximateNumberOfMessages"]
        attributes = self._ask("get_queue_attributes", "look at", AttributeNames=names)["Attributes"]
        return QueueState(int(attributes[names[0]]) * 1000, int(attributes[names[1]]))

    def _ask_for_each(self, request: str, operation: str, entries: Sequence[dict[str, Any]]) -> None:
        remaining = iter(entries)
        requests = []
        while some := list(islice(remaining, _MOST_MESSAGES)):
            requests.append([{"Id": str(number), **entry} for number, entry in enumerate(some)])
        if requests:
            with DaemonThreads(_THREADS, "tidegate-queue") as pool:
                list(pool.map(lambda some: self._ask(request, operation, Entries=some), requests))

    def _ask(self, request: str, operation: str, **parameters: Any) -> Any:
        from botocore.exceptions import ClientError

        def ask() -> Any:
            try:
                return getattr(self._config.queue_client(), request)(QueueUrl=self._url, **parameters)
            except ClientError as problem:
                code = problem.response.get("Error", {}).get("Code", "")
                if code == _FULL:
                    return {}
                if code in _NO_QUEUE:
                    raise OptionError(f"queueUrl is {self._url!r}, and there is no such queue") from None
                raise

        return ask_s3(ask, operation, self._target, self._config.deadline_s, self._closed)

    @property
    def _target(self) -> str:
        return f"the queue {self._url}" + ("" if self._config.region is None else f" in {self._config.region}")
