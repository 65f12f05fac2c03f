"""What every lab has: the steps that were done in it, the events that were seen, and what it closes in the end."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from types import TracebackType
from typing import TypeVar

from typing_extensions import Self

from tidegate.errors import ContractError

_Found = TypeVar("_Found")
PATIENCE_S = 20.0
_POLL_S = 0.01  # seconds between two looks at another system, which does not report its changes


class ConformanceError(AssertionError):
    """A connector or data source breaks a rule.  The message has the failure, and the steps that led to it."""


class WaitedError(ConformanceError):
    """An event that must come did not come in time."""


class SkippedError(Exception):
    """A rule is about an ability that is not there; the message gives the reason."""


def slowness() -> float:
    """Return how many times slower than alone a program is on this machine now: the kit waits so much longer."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def made(kind: type, maker: str, value: _Found) -> _Found:
    """Return a value that a harness made.  Raises ContractError if it is of another type."""
    if not isinstance(value, kind):
        raise ContractError(f"{maker} gives a {type(value).__name__} instead of {kind.__name__}")
    return value


class BaseLab(ABC):
    """A scenario for one rule.

    The rule reports events by ``saw``, and complains by ``expect`` and ``fail``.  The lab closes everything that the
    rule opens here.

    name: of the connector or data source, in reports.
    patience_s: how long, in real time, the lab waits for events that must come.
    """

    def __init__(self, name: str, patience_s: float, close: Callable[[], object]) -> None:
        self.name, self.patience_s = name, patience_s
        self.story: list[str] = []
        self.seen: set[str] = set()
        self._closers: list[Callable[[], object]] = [close]

    @abstractmethod
    def lacking(self, need: Enum) -> str | None:
        """Return why something that rules need is not there; None: it is."""

    def skip_without(self, needs: Iterable[Enum]) -> None:
        """Raise SkippedError if something that a rule needs is not there."""
        for need in sorted(needs, key=lambda needed: needed.name):
            if (why := self.lacking(need)) is not None:
                raise SkippedError(f"{self.name} has no {need.name}: {why}")

    def tell(self, step: str) -> None:
        """Add a step to the story in the message of a failure."""
        self.story.append(step)

    def saw(self, what: str) -> None:
        """Witness an event that the rule is about, in the words of the rule's ``witness``."""
        self.seen.add(what)

    def fail(self, complaint: str) -> ConformanceError:
        """Return the error of a failure, for the caller to raise."""
        return ConformanceError(complaint)

    def expect(self, truth: object, complaint: str) -> None:
        """Raise a ConformanceError unless something is true."""
        if not truth:
            raise self.fail(complaint)

    def refuse(self, complaint: str | None) -> None:
        """Raise a ConformanceError if there is a complaint."""
        if complaint is not None:
            raise self.fail(complaint)

    def at_close(self, close: Callable[[], object]) -> None:
        """Call a function when the lab is closed; the last one first."""
        self._closers.append(close)

    def until(self, look: Callable[[], _Found | None], complaint: str | Callable[[], str]) -> _Found:
        """Return the first result of a look that is not None; raises WaitedError if none comes in time."""
        begun = time.monotonic()
        while True:
            seen = look()
            if seen is not None:
                return seen
            if self.is_over(begun):
                message = complaint if isinstance(complaint, str) else complaint()
                raise WaitedError(f"{message} (waited {self.patience_s:g} s)")
            time.sleep(_POLL_S)  # the system does not report its changes

    def is_over(self, begun: float) -> bool:
        """Return whether patience is over, which began at a time of the monotonic clock."""
        return time.monotonic() > begun + self.patience_s * slowness()

    def close(self) -> None:
        """Close everything that was opened, the last first.  Raises the first error after everything is closed."""
        errors: list[BaseException] = []
        while self._closers:
            try:
                self._closers.pop()()
            except BaseException as error:  # noqa: BLE001, PERF203 - it must not keep open what was opened before
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:  # otherwise the first error counts
                raise
