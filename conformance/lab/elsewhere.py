"""Calls functions in another Python process, because planners and executors are other processes."""

from __future__ import annotations

import io
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
from tidegate.conformance.errors import ConformanceError
from tidegate.enumerators.contract import Json, SupportsCommit
from tidegate.sources.source import Source
from tidegate.spark_private import cloudpickle

__all__ = ["Elsewhere", "snapshot_of"]

_HASH_SEED = "20260101"  # sets of texts are probably in another order there
_ZONE = "Pacific/Chatham"  # probably another time zone than here
_ENDING_S = 30.0  # Spark takes some


class Elsewhere:
    """A process that calls functions.  Ended by ``close`` or ``kill``; both may be called twice."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path or os.curdir for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": _HASH_SEED, "TZ": _ZONE},
            start_new_session=True,
        )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a function's result there.  Raises ConformanceError, with the stack, for its error."""
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        question = pickle.dumps(_pickled(function, arguments))
        try:
            self._process.stdin.write(question)
            self._process.stdin.flush()
            failed, answer = pickle.load(self._process.stdout)  # noqa: S301 - from a process of our own
        except (BrokenPipeError, EOFError):
            raise ConformanceError(f"another process died in {function.__name__}()") from None
        if failed:
            raise ConformanceError(f"in another process:\n{answer}")
        return answer

    def kill(self) -> None:
        """Kill it and all processes that it started (SIGKILL), such as Spark's Java, unless it has ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._hang_up()

    def close(self) -> None:
        """Let it end by itself, and kill it if something holds it up, such as a thread of the connector."""
        self._hang_up()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _hang_up(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # it died with a question on its way
                    pipe.close()


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


def _serve(questions: io.BufferedReader, answers: io.BufferedWriter) -> None:
    while True:
        try:
            question = pickle.load(questions)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        answers.write(_answer(question))
        answers.flush()


def _answer(question: bytes) -> bytes:
    """Call the function, and return its result, or the stack of its error."""
    try:
        function, arguments = pickle.loads(question)  # noqa: S301 - as above
        return bytes(cloudpickle.dumps((False, function(*arguments))))  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - told to who asked
        return pickle.dumps((True, traceback.format_exc(limit=-6)))


if __name__ == "__main__":
    with open(os.dup(0), "rb") as asked, open(os.dup(1), "wb") as answered:  # noqa: PTH123 - descriptors
        # The output of a connector must not mix with the answers.
        os.dup2(2, 1)
        _serve(asked, answered)
