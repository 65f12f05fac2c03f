"""Threads and processes: actions that may hang, calls in another process, and what this process holds."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tidegate.conformance.lab.base import BaseLab, ConformanceError, SkippedError, slowness
from tidegate.spark_private import cloudpickle

_CLOSING_S = 10.0
_HASH_SEED = "20260101"  # sets of texts are probably in another order there
_ZONE = "Pacific/Chatham"  # probably another time zone than here
_PROCESS_S = 50.0  # a rule has a little longer
_DESCRIPTORS = next((path for path in (Path("/proc/self/fd"), Path("/dev/fd")) if path.exists()), None)
_PROC = Path("/proc")  # of Linux; other systems show no processes
_Result = TypeVar("_Result")


class Attempt(threading.Thread, Generic[_Result]):
    """An action that runs once.

    result: of the action; None: an error, or none yet.
    seconds: how long it took.
    """

    def __init__(self, what: str, do: Callable[[], _Result]) -> None:
        super().__init__(name=f"conformance-{what}", daemon=True)
        self.what, self._act = what, do
        self.result: _Result | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0

    def run(self) -> None:
        """Run the action."""
        begun = time.monotonic()
        try:
            self.result = self._act()
        except BaseException as error:  # noqa: BLE001 - whatever a connector raises is told
            self.error = error
        self.seconds = time.monotonic() - begun

    def ended_within(self, seconds: float) -> bool:
        """Wait for the end, longer where the machine is overloaded; return whether it came."""
        begun = time.monotonic()
        while self.is_alive() and (left_s := begun + seconds * slowness() - time.monotonic()) > 0:
            self.join(left_s)
        return not self.is_alive()


class Trial(Attempt[None]):
    """An action that runs in a lab of its own, which is closed afterwards.

    error: of the action, or of the closing of the lab if the action went well.
    """

    def __init__(self, what: str, open_lab: Callable[[], BaseLab], do: Callable[[BaseLab], None]) -> None:
        super().__init__(what, self._live)
        self._open_lab, self._do = open_lab, do
        self.lab: BaseLab | None = None

    def _live(self) -> None:
        self.lab = self._open_lab()
        with self.lab:
            self._do(self.lab)

    def hung(self, deadline_s: float) -> str | None:
        """Start, and wait until it has ended.  None: it has; else it is left alone, and this says where it hangs."""
        self.start()
        if self.ended_within(deadline_s):
            return None
        complaint = f"it did not end within {deadline_s:g} s\n{self._stacks()}"
        if self.lab is not None:
            # Its own thread may never close it, and closing often ends a hang; it may hang as well.
            closing = threading.Thread(target=_close, args=[self.lab], name=f"{self.name}-closing", daemon=True)
            closing.start()
            closing.join(_CLOSING_S)
        return complaint

    def _stacks(self) -> str:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = []
        with suppress(RuntimeError):
            frames = sys._current_frames()  # noqa: SLF001 - documented for this very use
            for ident in sorted(frames, key=lambda key: key != self.ident):
                stack = "".join(traceback.format_stack(frames[ident]))
                stacks.append(f"thread {names.get(ident, ident)}:\n{stack}")
        return "\n".join(stacks)


def _close(lab: BaseLab) -> None:
    with suppress(BaseException):  # the hang is reported
        lab.close()


def in_another_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function that a process of its own calls.

    Raises ConformanceError, with the stack, for an error there; also for what cannot be pickled, and if that process
    dies or takes too long.  What the function raises of the kit's own comes as it is.
    """
    question = _pickled(function, arguments)
    paths = os.pathsep.join(path or os.curdir for path in sys.path)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", __name__],
            input=question,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": _HASH_SEED, "TZ": _ZONE},
            timeout=_PROCESS_S * slowness(),
            check=False,
        )
        raised, answer = pickle.loads(ended.stdout)  # noqa: S301 - from a process of our own
    except subprocess.TimeoutExpired:
        raise ConformanceError(
            f"{function.__name__}() did not end within {_PROCESS_S:g} s in another process"
        ) from None
    except (EOFError, pickle.UnpicklingError):
        raise ConformanceError(f"another process died in {function.__name__}()") from None
    if raised is not None:
        raise raised(answer)
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
        return bytes(cloudpickle.dumps((None, function(*arguments))))  # type: ignore[no-untyped-call]
    except (ConformanceError, SkippedError) as verdict:
        return pickle.dumps((type(verdict), str(verdict)))
    except Exception:  # noqa: BLE001 - told to who asked
        return pickle.dumps((ConformanceError, f"in another process:\n{traceback.format_exc(limit=-6)}"))


@dataclass(frozen=True)
class Resources:
    """The resources of a process at a moment: names by kind.

    Without support of the system, children and the kinds of descriptors are left out.
    """

    kinds: Mapping[str, Mapping[object, str]]

    @classmethod
    def now(cls) -> Resources:
        """Return the present resources."""
        kinds: dict[str, dict[object, str]] = {
            "thread": {thread.ident: thread.name for thread in threading.enumerate()},
            "child process": {pid: _command(pid) for pid in _children()},
        }
        for number, what in _descriptors().items():
            kind = what.partition(":")[0] if not what.startswith("/") else "file"
            kinds.setdefault(kind, {})[number, what] = what
        return cls(kinds)

    def beyond(self, before: Resources) -> str | None:
        """Return a clause on the kinds with more resources than before.

        Counted by kind, because a pool may have replaced its resources.
        """
        grown = []
        for kind, now in self.kinds.items():
            then = before.kinds.get(kind, {})
            if len(now) > len(then):
                names = sorted({name for key, name in now.items() if key not in then})
                grown.append(f"{len(now) - len(then)} more of the kind {kind!r} than before, such as {names[-1]!r}")
        return " and ".join(grown) or None


def _descriptors() -> dict[int, str]:
    kinds: dict[int, str] = {}
    if _DESCRIPTORS is None:
        return kinds
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - names alone are wanted
        with suppress(OSError):  # the one that listed them is gone by now
            kinds[int(name)] = os.readlink(_DESCRIPTORS / name) if _DESCRIPTORS.parts[1] == "proc" else "descriptor"  # noqa: PTH115
    return kinds


def _children() -> list[int]:
    """Return the running children of this process."""
    children = []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z" and int(parent) == os.getpid():
                children.append(int(folder.name))
    return children


def _command(pid: int) -> str:
    """Return the command line of a process; empty: it has ended."""
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


if __name__ == "__main__":
    with open(os.dup(1), "wb") as answers:  # noqa: PTH123 - a descriptor
        os.dup2(2, 1)  # the output of a connector must not mix with the answer
        answers.write(_answer(sys.stdin.buffer.read()))
    os._exit(0)  # a thread of the connector may never end
