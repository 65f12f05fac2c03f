"""Runs operations while the other side fails: they must end in time, and with the right error."""

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

_Result = TypeVar("_Result")
_PATIENCES = 4.5  # clients commonly give up after a minute


def give_up_s(lab: Lab) -> float:
    """Return the seconds after which an operation on a failing side must have ended: 90."""
    return _PATIENCES * lab.patience_s


def cut_off(lab: Lab) -> Fault:
    """Return the fault that cuts the other side off for a while.  Raises NotApplicableError if there is none."""
    if lab.can(Ability.FAULT_DISCONNECT):
        return Fault.DISCONNECT
    lab.skip_without([Ability.FAULT_CRASH])
    return Fault.CRASH


@dataclass
class Attempt(Generic[_Result]):
    """An operation in a thread of its own, while the other side fails.

    what: its name in a few words, such as "planning".
    result: of the operation; None: an error, or none yet.
    """

    lab: Lab
    what: str
    do: Callable[[], _Result]
    result: _Result | None = None
    error: BaseException | None = None
    seconds: float = 0.0

    def start(self) -> Attempt[_Result]:
        """Begin, and return at once."""
        self._thread = threading.Thread(target=self._run, name=f"conformance-{self.what}", daemon=True)
        self._thread.start()
        return self

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, or for a time."""
        self._thread.join(seconds)

    def end(self) -> Attempt[_Result]:
        """Wait until it has ended; raises ConformanceError if it does not, or ends by an error of a wrong kind."""
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
            self.result = self.do()
        except BaseException as error:  # noqa: BLE001 - of which kind, the one who waits looks at
            self.error = error
        self.seconds = time.monotonic() - begun
