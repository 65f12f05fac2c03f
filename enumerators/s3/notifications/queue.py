"""An SQS queue: its messages, the objects that they say S3 has created, and those that must not be deleted yet.

S3 notifies a queue directly (Amazon S3 User Guide: Event message structure), through SNS or through EventBridge.
SNS wraps the text in an envelope.  EventBridge's events have another form.

A message is held while no stored offset covers its objects.  A thread keeps it hidden, and deletes it when its objects
are stored.  To receive it again would be as safe, because seen objects are known.  But each reception counts for the
queue's redrive policy, which would move good messages to the dead-letter queue during a long batch.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlsplit

import orjson

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
_LONGEST_KEPT_S = 14 * 24 * 3600  # SQS's limit


class Message(NamedTuple):
    """A received message.

    id: the same for all receptions of the message.
    receipt: the receipt handle of this reception; only the last one can delete the message.
    received: the approximate number of receptions so far, with this one.
    sent_ms: when it was sent, in ms since the epoch; 0: the queue does not say.
    """

    id: str
    receipt: str
    body: str
    received: int
    sent_ms: int = 0


class QueueState(NamedTuple):
    """The retention of a queue, and the approximate number of messages that can be received now.

    A queue that names no retention has SQS's longest.
    """

    retention_ms: int
    messages: int


class NotificationQueue:
    """One queue.  Thread-safe.  It opens nothing before the first request.

    config: the configuration of the bucket.  Its credentials, or its role, are also used for the queue, but requests
        are always signed.  If the URL names a region, that region is used.
    url: the URL of the queue; requests go to its host.
    identity: an attribute: a digest of the URL, for offsets.

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
        self.identity = hashlib.sha256(url.encode()).hexdigest()[:12]
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
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        )
        return [
            Message(
                message["MessageId"],
                message["ReceiptHandle"],
                message["Body"],
                int(attributes.get("ApproximateReceiveCount", 1)),
                int(attributes.get("SentTimestamp", 0)),
            )
            for message in answer.get("Messages", ())
            for attributes in [message.get("Attributes", {})]
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
        # ElasticMQ keeps messages for ever, and names no retention.
        return QueueState(int(attributes.get(names[0], _LONGEST_KEPT_S)) * 1000, int(attributes[names[1]]))

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


_CREATED = "ObjectCreated:"
_LONGEST_KEY_BYTES = 1024  # S3's limit


class CreatedObject(NamedTuple):
    """An object that was created, or overwritten.

    The event's other fields (size, ETag, sequencer) are ignored.  Events may come late, twice or out of order.  So
    discovery asks the store for the present object.
    """

    bucket: str
    key: str


def created_objects(body: str) -> list[CreatedObject]:
    """Return the objects that a message names as created; none for other events and for S3's test messages.

    Raises ValueError if the body is incomplete, or not a notification of S3.  The error completes the sentence
    "the message ..." and does not show the body.
    """
    content = _parsed(body)
    if content.get("Type") == "Notification":
        content = _parsed(_text(content, "Message"))
    if "Records" in content:
        if not isinstance(content["Records"], list):
            raise ValueError("holds Records that are not a list")
        return [created for record in content["Records"] for created in _of_record(record)]
    if content.get("source") == "aws.s3":
        return _of_event_bridge(content)
    if content.get("Event") == "s3:TestEvent":
        return []
    raise ValueError("is not a notification of S3")


def _parsed(text: str) -> dict[str, Any]:
    try:
        content = orjson.loads(text)
    except ValueError:
        raise ValueError("is not JSON") from None
    if not isinstance(content, dict):
        raise ValueError("is not a notification of S3")  # noqa: TRY004 - the text is wrong, not the type
    return content


def _of_record(record: Any) -> list[CreatedObject]:
    # Other endpoints write the name as in a bucket's configuration, s3:ObjectCreated:Put.
    event = _text(record, "eventName").removeprefix("s3:")
    bucket = _text(record, "s3", "bucket", "name")
    # S3 encodes keys as forms are encoded: a space is a plus sign.
    key = _text(record, "s3", "object", "key")
    try:
        key = unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("holds a key that is not UTF-8") from None
    return [CreatedObject(bucket, _checked(key))] if event.startswith(_CREATED) else []


def _of_event_bridge(content: dict[str, Any]) -> list[CreatedObject]:
    kind = _text(content, "detail-type")
    if not kind.startswith("Object "):
        raise ValueError("holds no event of an object")  # such as calls of S3 that CloudTrail saw
    # EventBridge does not encode the key.
    created = CreatedObject(
        _text(content, "detail", "bucket", "name"), _checked(_text(content, "detail", "object", "key"))
    )
    return [created] if kind == "Object Created" else []


def _checked(key: str) -> str:
    if len(key.encode()) > _LONGEST_KEY_BYTES:
        raise ValueError(f"holds a key of more than {_LONGEST_KEY_BYTES} bytes")
    return key


def _text(content: Any, *path: str) -> str:
    for name in path:
        content = content.get(name) if isinstance(content, dict) else None
    if not isinstance(content, str) or not content:
        raise ValueError(f"lacks {'.'.join(path)}")
    return content


HIDDEN_S = 120
"""How long a message stays hidden after it was last hidden (SQS: visibility timeout).

After a kill, messages come again within this time.
"""

_RENEWED_S = HIDDEN_S / 3
_PATIENCE_S = 5.0  # for the last deletions at the end


@dataclass(slots=True)
class _Held:
    receipt: str
    number: int | None = None


class HeldMessages:
    """Holds messages until their round is stored.  Thread-safe.  It does not survive its process.

    A round gets a number when it ends.  It is stored when its number, or a greater one, is stored.
    """

    def __init__(self, queue: NotificationQueue) -> None:
        self._queue = queue
        self._changed = threading.Condition()
        self._held: dict[str, _Held] = {}
        self._stored_number = 0
        self._done: list[str] = []
        self._problem: BaseException | None = None
        self._renew_at = time.monotonic() + _RENEWED_S
        self._ended = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of held messages."""
        return len(self._held)

    def begin_round(self) -> None:
        """Begin a round; messages of a failed round come again.

        Raises the TidegateError because of which messages could not be hidden or deleted.
        """
        with self._changed:
            if self._problem is not None:
                raise self._problem
            self._held = {name: held for name, held in self._held.items() if held.number is not None}

    def take(self, messages: Sequence[Message]) -> list[Message]:
        """Hold messages, and return those that were not held before."""
        with self._changed:
            new = [message for message in messages if message.id not in self._held]
            for message in messages:
                # Only the last receipt deletes reliably.
                self._held.setdefault(message.id, _Held(message.receipt)).receipt = message.receipt
            if new and self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="tidegate-messages", daemon=True)
                self._thread.start()
        return new

    def end_round(self, number: int) -> None:
        """Give the messages since the last round the number of the manifest with which they are stored."""
        with self._changed:
            for held in self._held.values():
                if held.number is None:
                    held.number = number
            self._release()

    def stored(self, number: int) -> None:
        """Delete the messages of rounds up to this number, soon."""
        with self._changed:
            self._stored_number = number
            self._release()

    def close(self) -> None:
        """Delete the messages of stored rounds, within some seconds, and release the others; may be called twice."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)

    def _release(self) -> None:
        for name, held in list(self._held.items()):
            if held.number is not None and held.number <= self._stored_number:
                self._done.append(self._held.pop(name).receipt)
        if self._done:
            self._changed.notify_all()

    def _keep(self) -> None:
        try:
            while self._keep_once():
                pass
        except BaseException as problem:  # noqa: BLE001 - the next round raises it
            with self._changed:
                self._problem = problem

    def _keep_once(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._done, max(0.0, self._renew_at - time.monotonic()))
            done, self._done = self._done, []
            is_due = not self._ended and time.monotonic() >= self._renew_at
            held = [message.receipt for message in self._held.values()] if is_due else []
            goes_on = not self._ended
        if is_due:
            self._renew_at = time.monotonic() + _RENEWED_S
        self._queue.delete(done)
        self._queue.hide((receipt, HIDDEN_S) for receipt in held)
        return goes_on
