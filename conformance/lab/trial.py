"""Runs actions in threads of their own, so that a hanging connector hangs nothing else."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from tidegate.conformance.lab.lab import Lab

_CLOSING_S = 10.0
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


class Trial(Attempt[None]):
    """An action that runs in a lab of its own, which is closed afterwards.

    error: of the action, or of the closing of the lab if the action went well.
    """

    def __init__(self, what: str, open_lab: Callable[[], Lab], do: Callable[[Lab], None]) -> None:
        super().__init__(what, self._live)
        self._open_lab, self._do = open_lab, do
        self.lab: Lab | None = None

    def _live(self) -> None:
        self.lab = self._open_lab()
        with self.lab:
            self._do(self.lab)

    def hung(self, deadline_s: float) -> str | None:
        """Start, and wait until it has ended.  None: it has; else it is left alone, and this says where it hangs."""
        self.start()
        self.join(deadline_s)
        if not self.is_alive():
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


def _close(lab: Lab) -> None:
    with suppress(BaseException):  # the hang is reported
        lab.close()
