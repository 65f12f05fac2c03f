"""Runs operations while the other side fails: they must end in time, and with the right error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidegate.conformance.abilities import Ability
from tidegate.conformance.harness import Fault
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.trial import Attempt
from tidegate.errors import ConnectorError, CorruptDataError, TidegateError

_Result = TypeVar("_Result")
_PATIENCES = 4.5  # 90 s by default: clients commonly give up after a minute


def cut_off(lab: Lab) -> Fault:
    """Return the fault that cuts the other side off for a while.  Raises NotApplicableError if there is none."""
    if lab.can(Ability.FAULT_DISCONNECT):
        return Fault.DISCONNECT
    lab.skip_without([Ability.FAULT_CRASH])
    return Fault.CRASH


class DuringFault(Attempt[_Result]):
    """An operation while the other side fails, which begins at once.

    what: its name in a few words, such as "planning".
    """

    def __init__(self, lab: Lab, what: str, do: Callable[[], _Result]) -> None:
        super().__init__(what, do)
        self._lab = lab
        self.start()

    def end(self) -> DuringFault[_Result]:
        """Wait until it has ended; raises ConformanceError if it does not, or ends by an error of a wrong kind."""
        give_up_s = _PATIENCES * self._lab.patience_s
        self.join(give_up_s)
        if self.is_alive():
            raise self._lab.fail(f"{self.what} did not end within {give_up_s:g} s while the other side fails")
        error = self.error
        outcome = "succeeds" if error is None else f"fails with {type(error).__name__}"
        self._lab.tell(f"{self.what} {outcome} after {self.seconds:.1f} s")
        if error is None:
            return self
        if not isinstance(error, ConnectorError | CorruptDataError):
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            also = ", which says something else" if isinstance(error, TidegateError) else ""
            raise self._lab.fail(
                f"{self.what} raises {kind}{also}, not a ConnectorError, DeadlineError or CorruptDataError: {error}"
            ) from error
        if any(secret in str(error) for secret in self._lab.harness.secrets):
            raise self._lab.fail(f"the error of {self.what}, a {type(error).__name__}, shows a secret")
        return self
