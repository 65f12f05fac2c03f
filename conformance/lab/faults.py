"""What a connector does while the other side fails: it ends, in time, and with an error that says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.conformance.abilities import Ability
from tidegate.conformance.harness import Fault
from tidegate.conformance.lab.lab import Lab
from tidegate.errors import ConnectorError, CorruptDataError, TidegateError

__all__ = ["Attempt", "cut_off", "give_up_s"]

_Found = TypeVar("_Found")
_PATIENCES = 4.5  # clients commonly give up after a minute


def give_up_s(lab: Lab) -> float:
    """Return within which time, in seconds, whatever asks a side that fails must have ended: 90."""
    return _PATIENCES * lab.patience_s


def cut_off(lab: Lab) -> Fault:
    """Return the fault by which nothing can be reached for a while.  Raises NotApplicableError if there is none."""
    if lab.can(Ability.FAULT_DISCONNECT):
        return Fault.DISCONNECT
    lab.skip_without([Ability.FAULT_CRASH])
    return Fault.CRASH


@dataclass
class Attempt(Generic[_Found]):
    """Something that is done while the other side fails, in a thread of its own.

    what: says it in a few words, such as "planning".
    found: what came of it; None: an error, or nothing yet.
    error: why it failed; None: it did not.
    """

    lab: Lab
    what: str
    do: Callable[[], _Found]
    found: _Found | None = None
    error: BaseException | None = None
    seconds: float = 0.0

    def start(self) -> Attempt[_Found]:
        """Begin, and return at once."""
        self._thread = threading.Thread(target=self._run, name=f"conformance-{self.what}", daemon=True)
        self._thread.start()
        return self

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, or so long."""
        self._thread.join(seconds)

    def end(self) -> Attempt[_Found]:
        """Wait until it has ended; raises ConformanceError when it does not, or ends by an error of a wrong kind."""
        self._thread.join(give_up_s(self.lab))
        if self._thread.is_alive():
            raise self.lab.fail(f"{self.what} did not end within {give_up_s(self.lab):g} s while the other side fails")
        error = self.error
        outcome = "succeeds" if error is None else f"fails with {type(error).__name__}"
        self.lab.tell(f"{self.what} {outcome} after {self.seconds:.1f} s")
        if error is None:
            return self
        if not isinstance(error, ConnectorError | CorruptDataError):
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            also = ", which says something else" if isinstance(error, TidegateError) else ""
            raise self.lab.fail(
                f"{self.what} raises {kind}{also}, not a ConnectorError, DeadlineError or CorruptDataError: {error}"
            ) from error
        if any(secret in str(error) for secret in self.lab.harness.secrets):
            raise self.lab.fail(f"the error of {self.what}, a {type(error).__name__}, shows a secret")
        return self

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            self.found = self.do()
        except BaseException as error:  # noqa: BLE001 - of which kind, the one who waits looks at
            self.error = error
        self.seconds = time.monotonic() - begun
