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
from tidegate.readers.retry import Deadline, TransientError
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.errors import s3_error

__all__ = ["LONGEST_HIDDEN_S", "Message", "NotificationQueue", "QueueState"]

LONGEST_HIDDEN_S = 11 * 3600
"""SQS hides a message for at most 12 hours, counted from when it was received."""

_MOST_MESSAGES = 10  # of one request
_WAIT_S = 1  # without waiting, SQS asks only some of its servers, and may miss messages
_THREADS = 8
_REGION = re.compile(
    r"\bsqs(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\."
)  # in the host of AWS, and of those that act as it
_NO_QUEUE = {"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "InvalidAddress"}
_FULL = "OverLimit"
_PASSING = {"RequestThrottled", "KmsThrottled", "KMS.ThrottlingException"}


class Message(NamedTuple):
    """A message that was received.

    id: the same for all its receptions.
    receipt: of this reception; only the last one can delete.
    received: about how often it was received so far, this time included.
    """

    id: str
    receipt: str
    body: str
    received: int


class QueueState(NamedTuple):
    """How long a message is kept at most, and about how many may be received now."""

    retention_ms: int
    messages: int


class NotificationQueue:
    """One queue; opens nothing before the first request; thread-safe.

    config: of the bucket: its credentials, or role, are also the queue's, but requests are always signed.  The region
        is that of the URL, if it names one.
    url: of the queue; requests go to its host.

    A failed request is repeated until ``deadline_s``, or until ``close``.  All methods raise OptionError if there is no
    such queue, DeadlineError if it fails or is silent for too long, ConnectorError if it refuses.
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
        """Return at most ten messages, and hide them for a time; none: there are none, or SQS gives no more.

        It gives no more while 120,000 are hidden.
        """
        answer = self._ask(
            "receive_message",
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
        """Hide messages for some seconds from now on; those that are gone are ignored."""
        entries = [{"ReceiptHandle": receipt, "VisibilityTimeout": hidden_s} for receipt, hidden_s in receipts]
        self._ask_for_each("change_message_visibility_batch", entries)

    def delete(self, receipts: Iterable[str]) -> None:
        """Delete messages; those that were received again may come again."""
        self._ask_for_each("delete_message_batch", [{"ReceiptHandle": receipt} for receipt in receipts])

    def state(self) -> QueueState:
        """Return the state of the queue."""
        names = ["MessageRetentionPeriod", "ApproximateNumberOfMessages"]
        attributes = self._ask("get_queue_attributes", AttributeNames=names)["Attributes"]
        return QueueState(int(attributes[names[0]]) * 1000, int(attributes[names[1]]))

    def _ask_for_each(self, operation: str, entries: Sequence[dict[str, Any]]) -> None:
        remaining = iter(entries)
        requests = []
        while some := list(islice(remaining, _MOST_MESSAGES)):
            requests.append([{"Id": str(number), **entry} for number, entry in enumerate(some)])
        if requests:
            with DaemonThreads(_THREADS, "tidegate-queue") as pool:
                list(pool.map(lambda some: self._ask(operation, Entries=some), requests))

    def _ask(self, operation: str, **request: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = Deadline(f"ask the queue {self._url}", self._config.patience_s, sleep=self._rest)
        while True:
            try:
                return getattr(self._config.queue_client(), operation)(QueueUrl=self._url, **request)
            except ClientError as problem:
                code = problem.response.get("Error", {}).get("Code", "")
                if code == _FULL:
                    return {}
                if code in _NO_QUEUE:
                    raise OptionError(f"queueUrl is {self._url!r}, and there is no such queue") from None
                error = TransientError(f"it answered {code}") if code in _PASSING else s3_error(problem, self._target)
            except (BotoCoreError, OSError) as problem:
                error = s3_error(problem, self._target)
            if not isinstance(error, TransientError) or self._closed.is_set():
                raise error
            deadline.pause(error)

    @property
    def _target(self) -> str:
        return f"the queue {self._url}" + ("" if self._config.region is None else f" in {self._config.region}")

    def _rest(self, seconds: float) -> None:
        self._closed.wait(seconds)
