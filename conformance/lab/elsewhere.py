"""Calls a function in another Python process, because planners and executors are other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tidegate.conformance.errors import ConformanceError
from tidegate.spark_private import cloudpickle

_HASH_SEED = "20260101"  # sets of texts are probably in another order there
_ZONE = "Pacific/Chatham"  # probably another time zone than here
_DEADLINE_S = 50.0  # a rule has a little longer


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function that a process of its own calls.

    Raises ConformanceError, with the stack, for an error there; also for what cannot be pickled, and if that process
    dies or takes too long.
    """
    question = _pickled(function, arguments)
    paths = os.pathsep.join(path or os.curdir for path in sys.path)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", __name__],
            input=question,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": _HASH_SEED, "TZ": _ZONE},
            timeout=_DEADLINE_S,
            check=False,
        )
        failed, answer = pickle.loads(ended.stdout)  # noqa: S301 - from a process of our own
    except subprocess.TimeoutExpired:
        raise ConformanceError(
            f"{function.__name__}() did not end within {_DEADLINE_S:g} s in another process"
        ) from None
    except (EOFError, pickle.UnpicklingError):
        raise ConformanceError(f"another process died in {function.__name__}()") from None
    if failed:
        raise ConformanceError(f"in another process:\n{answer}")
    return answer


def _pickled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        return bytes(cloudpickle.dumps((function, arguments)))  # type: ignore[no-untyped-call]
    except (TypeError, pickle.PicklingError) as error:
        raise ConformanceError(f"what {function.__name__}() is given cannot be pickled: {error}") from None


def _answer(question: bytes) -> bytes:
    """Call the function, and return its result, or the stack of its error."""
    try:
        function, arguments = pickle.loads(question)  # noqa: S301 - as above
        return bytes(cloudpickle.dumps((False, function(*arguments))))  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - told to who asked
        return pickle.dumps((True, traceback.format_exc(limit=-6)))


if __name__ == "__main__":
    with open(os.dup(1), "wb") as answers:  # noqa: PTH123 - a descriptor
        os.dup2(2, 1)  # the output of a connector must not mix with the answer
        answers.write(_answer(sys.stdin.buffer.read()))
    os._exit(0)  # a thread of the connector may never end
