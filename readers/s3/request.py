"""Requests of boto3's clients: they are repeated until a deadline, and their errors become those of tidegate."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tidegate.errors import ConnectorError, ObjectGoneError, OptionError, TidegateError, TransientError
from tidegate.readers.retry import Deadline

_Answer = TypeVar("_Answer")
_QUERY = re.compile(r"\?[^\s\"']*")  # the query of a signed URL holds the signature, which is a secret

OVERWRITTEN = "was overwritten"
DELETED = "was deleted"
_GONE = {
    "404": DELETED,
    "NoSuchKey": DELETED,
    "NoSuchVersion": DELETED,
    "412": OVERWRITTEN,
    "PreconditionFailed": OVERWRITTEN,
    "416": OVERWRITTEN,
    "InvalidRange": OVERWRITTEN,
}
_LOOK_AT = {
    "InvalidAccessKeyId": "accessKey",
    "SignatureDoesNotMatch": "secretKey",
    "InvalidToken": "sessionToken",
    "ExpiredToken": "sessionToken",
    "AuthorizationHeaderMalformed": "region",
}
"""The option that explains a refusal of the endpoint."""
_PASSING = {
    "RequestTimeout",
    "RequestTimeTooSkewed",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "KmsThrottled",
    "KMS.ThrottlingException",
    "ConditionalRequestConflict",  # of two conditional writes at the same time, one must be repeated
}

_BAD_HEADER = "Invalid header value"  # of http.client, which then shows the value
_LOGIN = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or any other place of boto3's"
_BUCKET_NAMES = "a bucket's name has letters, digits, '.', '-' and '_' only, or is the ARN of an access point"


def ask_s3(
    request: Callable[[], _Answer],
    operation: str,
    target: str,
    seconds: float,
    stopped: threading.Event | None = None,
) -> _Answer:
    """Return the answer to a request that may be sent repeatedly.

    request: raises ``failures``, or a TransientError of its own.

    operation, target: complete the sentence "cannot ..."; a target is an address such as ``s3://bucket/key``.
    seconds: the deadline of this request, retries included.
    stopped: once it is set, nothing is repeated.

    Raises the errors of ``s3_error``.  For a TransientError that lasts until the deadline, raises DeadlineError.
    """
    stopped = stopped or threading.Event()
    deadline = Deadline(f"{operation} {target}", seconds, sleep=stopped.wait)
    while True:
        try:
            return request()
        except TransientError as problem:
            error = problem
        except failures() as problem:
            translated = s3_error(problem, operation, target)
            if not isinstance(translated, TransientError):
                raise translated from problem
            error = translated
        if stopped.is_set():
            raise error
        deadline.pause(error)


def failures() -> tuple[type[Exception], ...]:
    """Return what requests of boto3's clients raise, besides errors of ours."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    # botocore passes on those of urllib3 if a refusal breaks off.  An OSError is about a file of certificates or of
    # credentials.
    return BotoCoreError, ClientError, HTTPError, OSError


def s3_error(problem: Exception, operation: str, target: str) -> TidegateError:
    """Translate one of the ``failures`` into a TransientError, ObjectGoneError, OptionError or ConnectorError.

    operation, target: complete the sentence "cannot ..."; a target contains an address such as ``s3://bucket/key``.
    """
    from botocore import exceptions
    from urllib3.exceptions import HTTPError

    if isinstance(problem, exceptions.ClientError):
        return _refusal(problem.response, operation, target)
    sentence = _QUERY.sub("", str(problem)).rstrip(".")
    if _BAD_HEADER in sentence:
        return OptionError(f"cannot {operation} {target}: the access key or session token has a line end")
    passing = (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        exceptions.ResponseStreamingError,
        HTTPError,
    )
    if isinstance(problem, passing):
        return TransientError(sentence)
    if isinstance(problem, exceptions.ParamValidationError):
        is_of_bucket = "Invalid bucket name" in sentence
        reason = _BUCKET_NAMES if is_of_bucket else " ".join(sentence.split())
        return OptionError(f"{target} names no object of S3: {reason}")
    if isinstance(problem, exceptions.NoCredentialsError):
        sentence += f"; set accessKey and secretKey, or {_LOGIN}"
    return ConnectorError(f"cannot {operation} {target}: {sentence}")


def _refusal(response: Any, operation: str, target: str) -> TidegateError:
    code = response.get("Error", {}).get("Code", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _GONE:
        became = _GONE[code]
        return ObjectGoneError(f"{target} {became} after it was found", overwritten=became == OVERWRITTEN)
    if code == "InvalidObjectState":
        kept = response["Error"].get("StorageClass") or response.get("StorageClass") or "an archive"
        return ConnectorError(
            f"{target} is archived in the storage class {kept}: restore it first, or set ignoreArchivedFiles to true "
            "to leave out archived objects"
        )
    if 300 <= status < 400:
        return ConnectorError(
            f"the endpoint redirects a request to {operation} {target} to another address ({code or status}), and no "
            f"redirect is followed; look at endpoint and region"
        )
    if code == "NoSuchBucket":
        return OptionError(f"there is no bucket {target.split('/')[2]!r} for {target}")
    if status >= 500 or status == 429 or code in _PASSING:
        return TransientError(f"the endpoint answered {code or status}")
    hint = f"; look at {_LOOK_AT[code]}, or where boto3 finds it" if code in _LOOK_AT else ""
    return ConnectorError(f"the endpoint refused to {operation} {target}: {code or status}{hint}")
