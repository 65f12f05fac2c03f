"""Lists the objects and the folders of a bucket, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.errors import ConnectorError
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.request import ask_s3


def list_pages(
    config: S3ConnectionConfig,
    bucket: str,
    prefix: str,
    operation: str = "list",
    target: str | None = None,
    seconds: float | None = None,
    **parameters: str | int,
) -> Iterator[Any]:
    """Yield the answers to a listing, each when its turn comes.

    operation, target, seconds: as ``ask_s3`` takes them; default: the prefix, and the connection's deadline.
    parameters: others of ListObjectsV2, such as ``Delimiter``.

    Raises the errors of ``ask_s3``, and ConnectorError if the endpoint cuts the listing and gives no token to continue.
    """
    target, seconds = target or f"s3://{bucket}/{prefix}", seconds or config.deadline_s
    request = {"Bucket": bucket, "Prefix": prefix, **parameters}
    while True:
        answer = ask_s3(lambda: config.client().list_objects_v2(**request), operation, target, seconds)
        yield answer
        token = next_token(answer, target)
        if token is None:
            return
        request["ContinuationToken"] = token


def next_token(answer: Any, target: str) -> str | None:
    """Return the token with which a listing continues; None: it is over.

    Raises ConnectorError if the endpoint cut it and gave none.
    """
    if not answer.get("IsTruncated"):
        return None
    token = answer.get("NextContinuationToken")
    if not token:
        raise ConnectorError(f"the endpoint cut the listing of {target} and gave no token to continue")
    return str(token)
