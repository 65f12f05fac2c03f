"""Retries a request of boto3's client until a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tidegate.errors import TransientError
from tidegate.readers.retry import Deadline
from tidegate.readers.s3.errors import s3_error

_Answer = TypeVar("_Answer")


def ask_s3(
    request: Callable[[], _Answer],
    operation: str,
    target: str,
    seconds: float,
    stopped: threading.Event | None = None,
    prefix: str = "",
) -> _Answer:
    """Return the answer to a request that may be sent repeatedly.

    operation, target: complete the sentence "cannot ..."; a target is an address such as ``s3://bucket/key``.
    seconds: the deadline of this request, retries included.
    stopped: once it is set, nothing is repeated.
    prefix: that of the connection.

    Raises the errors of ``s3_error``.  For a TransientError that lasts until the deadline, raises DeadlineError.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    stopped = stopped or threading.Event()
    deadline = Deadline(f"{operation} {target}", seconds, sleep=stopped.wait)
    while True:
        try:
            return request()
        except (BotoCoreError, ClientError, OSError) as problem:
            error = s3_error(problem, operation, target, prefix)
            if not isinstance(error, TransientError) or stopped.is_set():
                raise error from problem
        deadline.pause(error)
