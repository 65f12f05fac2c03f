"""Parses the body of a message: the objects that S3 has created.

S3 notifies a queue directly (Amazon S3 User Guide: Event message structure), through SNS or through EventBridge.
SNS wraps the text in an envelope.  EventBridge's events have another form.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import orjson

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
            raise ValueError("holds Records that are no list")
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
