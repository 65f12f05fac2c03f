"""Runs an action with a harness in a thread of its own, so that a hanging connector hangs nothing else."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress

from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.lab import Lab

_CLOSING_S = 10.0


class Trial(threading.Thread):
    """An action that runs once, in a lab of its own, which is closed afterwards.

    error: of the action, or of the closing of the lab if the action went well or was skipped.
    """

    def __init__(self, what: str, open_lab: Callable[[], Lab], do: Callable[[Lab], None]) -> None:
        super().__init__(name=f"conformance-{what}", daemon=True)
        self._open_lab, self._do = open_lab, do
        self.lab: Lab | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the action, and close the lab."""
        try:
            self.lab = self._open_lab()
        except BaseException as error:  # noqa: BLE001 - whatever a connector raises is told
            self.error = error
            return
        for step in (self._do, Lab.close):
            try:
                step(self.lab)
            except BaseException as error:  # noqa: BLE001, PERF203 - as above
                if self.error is None or isinstance(self.error, SkippedError):
                    self.error = error

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
