"""Calls a function in another Python process, because planners and executors are other processes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from tidegate.alignment.splits import Positions
from tidegate.conformance.errors import ConformanceError, DiedError
from tidegate.enumerators.contract import Json, SupportsCommit
from tidegate.sources.source import Source
from tidegate.spark_private import cloudpickle

_HASH_SEED = "20260101"  # sets of texts are probably in another order there
_ZONE = "Pacific/Chatham"  # probably another time zone than here
_ENDING_S = 30.0  # Spark takes some


class Elsewhere:
    """A call of a function in a process of its own, which ``result`` awaits, and ``kill`` ends.

    Raises ConformanceError if the function or its arguments cannot be pickled.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._name = function.__name__
        question = _pickled(function, arguments)
        paths = os.pathsep.join(path or os.curdir for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": _HASH_SEED, "TZ": _ZONE},
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), self._process.stdin as questions:  # if it has died, result() says so
            questions.write(question)

    def result(self) -> Any:
        """Return the function's result.  Raises ConformanceError, with the stack, for its error, and DiedError."""
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        with self._process.stdout as answers:
            try:
                failed, answer = pickle.load(answers)  # noqa: S301 - from a process of our own
            except EOFError:
                self.kill()
                raise DiedError(f"another process died in {self._name}()") from None
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:  # something holds it up, such as a thread of the connector
            self.kill()
        if failed:
            raise ConformanceError(f"in another process:\n{answer}")
        return answer

    def kill(self) -> None:
        """Kill it and all processes that it started (SIGKILL), such as Spark's Java; may be called twice."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def snapshot_of(source: Source, state: Json, positions: Positions) -> Json | None:
    """Return the snapshot of a restored enumerator after its first discovery."""
    with closing(source.as_stream().enumerator(state)) as enumerator:
        if isinstance(enumerator, SupportsCommit):
            enumerator.commit(positions)
        enumerator.extents(enumerator.discover())
        return enumerator.snapshot()


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
